// 16 clients at once on both engines: lamina behind its HTTP server, llama.cpp without one (its own continuous batching, see llama_cpp.mjs).
import os from 'node:os';
import { complete, gaps, quantile, startServer, tokens } from '../serve/client.mjs';
import { median } from './report.mjs';
import { startSession } from './session.mjs';

const shapeOf = (quick) => (quick ? { clients: 4, prompt: 64, tokens: 8 } : { clients: 16, prompt: 256, tokens: 64 });

// Times in ms from the start, of each token of each client.
function figures(seconds, times) {
  const between = times.flatMap(gaps);
  return {
    tok_s: times.flat().length / seconds,
    first_p50: quantile(times.map((t) => t[0]), 0.5),
    first_p99: quantile(times.map((t) => t[0]), 0.99),
    next_p50: quantile(between, 0.5),
    next_p99: quantile(between, 0.99),
  };
}

async function askLamina(port, shape) {
  const start = performance.now();
  const runs = await Promise.all(Array.from({ length: shape.clients }, () => complete(port, tokens(shape.prompt), shape.tokens)));
  return figures((performance.now() - start) / 1000, runs.map((run) => run.times.map((t) => t - start)));
}

async function askPeer(peer, shape, options) {
  const { seconds, times } = await peer.ask({ what: 'serve', ...shape, ...options });
  return figures(seconds, times);
}

// The rounds of one format; prints its row of the table.
export async function compareServing({ build, rounds, quick }, format, { model, file, packages }) {
  const shape = shapeOf(quick);
  // Two turns fill it: after the two that the peer's options take its memory is as warm as the peer's, and prompts push out older ones.
  const pool = ['--max-total-tokens', String(2 * shape.clients * (shape.prompt + shape.tokens))];
  const server = await startServer({ binary: `${build}/lamina`, model, server: pool });
  const peer = await startSession(process.execPath, ['bench/peers/llama_cpp.mjs', packages, file]);
  const out = { format, shape, turns: [] };
  try {
    const tried = [];
    for (const flash of [true, false]) {
      const options = { threads: os.availableParallelism(), flash };
      tried.push({ options, ...(await askPeer(peer, shape, options)) });
    }
    out.peer_options = tried.reduce((a, b) => (b.tok_s > a.tok_s ? b : a)).options;
    for (const _ of tried) await askLamina(server.port, shape);
    for (let round = 0; round < rounds; ++round) {
      const turn = {};
      const asks = [['lamina', () => askLamina(server.port, shape)], ['peer', () => askPeer(peer, shape, out.peer_options)]];
      for (const [engine, ask] of round % 2 === 0 ? asks : asks.reverse()) turn[engine] = await ask();
      out.turns.push(turn);
    }
  } finally {
    server.child.removeAllListeners('exit');
    server.child.kill('SIGTERM');
    await peer.end();
  }
  print(out);
  return out;
}

function print({ format, shape, turns, peer_options: options }) {
  const of = (engine, key) => median(turns.map((turn) => turn[engine][key]));
  const ratio = (key) => median(turns.map((turn) => turn.lamina[key] / turn.peer[key])).toFixed(2);
  console.log(`### ${format}, ${shape.clients} clients, prompts of ${shape.prompt}, ${shape.tokens} tokens each (llama.cpp: flash ${options.flash ? 'on' : 'off'})\n`);
  console.log('| | output tok/s | first token p50 / p99, ms | next token p50 / p99, ms |\n|---|---|---|---|');
  for (const engine of ['lamina', 'peer']) {
    const two = (a, b) => `${of(engine, a).toFixed(0)} / ${of(engine, b).toFixed(0)}`;
    console.log(`| ${engine === 'peer' ? 'llama.cpp' : engine} | ${of(engine, 'tok_s').toFixed(1)} | ${two('first_p50', 'first_p99')} | ${two('next_p50', 'next_p99')} |`);
  }
  console.log(`| ratio | ${ratio('tok_s')} | ${ratio('first_p50')} / ${ratio('first_p99')} | ${ratio('next_p50')} / ${ratio('next_p99')} |\n`);
}
