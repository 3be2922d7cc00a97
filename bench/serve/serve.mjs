// Drives a live server with 1 to 32 clients, with and without a shared prefix.
//   node bench/serve/serve.mjs LAMINA MODEL [--clients 1,4,16,32] [--prompt 256] [--new 64] [--shared 2048] [--long 4096] [-- SERVER OPTIONS]
// Prints output tokens/s, time to first token and inter-token time (p50, p99) a row; then what a cached prefix saves, and what a long
// prompt does to running streams.
import { spawn } from 'node:child_process';
import http from 'node:http';

function options(argv) {
  const own = argv.includes('--') ? argv.slice(0, argv.indexOf('--')) : argv;
  const server = argv.includes('--') ? argv.slice(argv.indexOf('--') + 1) : [];
  const out = { binary: own[0], model: own[1], clients: '1,2,4,8,16,32', prompt: '256', new: '64', shared: '2048', long: '4096', server };
  for (let i = 2; i + 1 < own.length; i += 2) out[own[i].replace(/^--/, '')] = own[i + 1];
  return out;
}

function startServer({ binary, model, server }) {
  const child = spawn(binary, ['serve', model, '--port', '0', ...server], { stdio: ['ignore', 'pipe', 'pipe'] });
  return new Promise((resolve, reject) => {
    let seen = '';
    const look = (chunk) => {
      seen += chunk;
      const port = /ready on http:\/\/[^\s:]+:(\d+)/.exec(seen);
      if (port) resolve({ child, port: Number(port[1]) });
    };
    child.stdout.on('data', look);
    child.stderr.on('data', look);
    child.on('exit', (code) => reject(new Error(`the server ended with code ${code}:\n${seen}`)));
  });
}

// One streamed answer (the native form, which sends every token, with or without text): times in ms of the request and of each token.
function complete(port, prompt, maxTokens) {
  const body = JSON.stringify({ input_ids: prompt, sampling_params: { max_new_tokens: maxTokens, temperature: 0, ignore_eos: true }, stream: true });
  const start = performance.now();
  return new Promise((resolve, reject) => {
    const request = http.request({ port, path: '/generate', method: 'POST', headers: { 'content-type': 'application/json' } }, (answer) => {
      const times = [];
      let rest = '';
      answer.on('data', (chunk) => {
        rest += chunk;
        for (let at; (at = rest.indexOf('\n\n')) >= 0; rest = rest.slice(at + 2)) {
          const event = rest.slice(0, at);
          if (event.startsWith('data: {')) times.push(performance.now());
        }
      });
      answer.on('end', () => (answer.statusCode === 200 ? resolve({ start, times }) : reject(new Error(`status ${answer.statusCode}: ${rest}`))));
    });
    request.on('error', reject);
    request.end(body);
  });
}

let state = 12345;
const random = (n) => (state = (state * 1103515245 + 12345) % 2147483648) % n;
const tokens = (count) => Array.from({ length: count }, () => 10 + random(200));
const quantile = (values, q) => [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(q * values.length))] ?? NaN;
const gaps = (times) => times.slice(1).map((t, i) => t - times[i]);
const ms = (value) => `${value.toFixed(1)} ms`.padStart(12);

async function throughput(port, clients, { prompt, new: fresh }, shared) {
  const prefix = tokens(shared);
  const started = performance.now();
  const runs = await Promise.all(Array.from({ length: clients }, () => complete(port, [...prefix, ...tokens(Number(prompt))], Number(fresh))));
  const seconds = (performance.now() - started) / 1000;
  const first = runs.map((r) => r.times[0] - r.start);
  const between = runs.flatMap((r) => gaps(r.times));
  const rate = (clients * Number(fresh)) / seconds;
  console.log(
    `${String(clients).padStart(7)} ${String(shared).padStart(7)} ${rate.toFixed(1).padStart(10)} ${ms(quantile(first, 0.5))} ${ms(quantile(first, 0.99))} ` +
      `${ms(quantile(between, 0.5))} ${ms(quantile(between, 0.99))}`,
  );
  return rate;
}

async function cachedPrefix(port, shared) {
  const prefix = tokens(shared);
  const cold = await complete(port, [...prefix, ...tokens(32)], 2);
  const warm = await complete(port, [...prefix, ...tokens(32)], 2);
  const [a, b] = [cold.times[0] - cold.start, warm.times[0] - warm.start];
  console.log(`cached prefix of ${shared} + 32 own tokens: first token after ${ms(a)} cold, ${ms(b)} cached: ${((100 * b) / a).toFixed(1)} %`);
}

async function longPrompt(port, long) {
  const streams = Array.from({ length: 4 }, () => complete(port, tokens(16), 400));
  await new Promise((done) => setTimeout(done, 500));
  const arrival = complete(port, tokens(long), 2);
  const answered = await arrival;
  const runs = await Promise.all(streams);
  const inside = runs.flatMap((r) => gaps(r.times.filter((t) => t >= answered.start && t <= answered.times[0])));
  const all = runs.flatMap((r) => gaps(r.times));
  console.log(
    `4 streams while a prompt of ${long} arrives (first token after ${ms(answered.times[0] - answered.start)}): inter-token p50 ${ms(quantile(all, 0.5))}, ` +
      `p99 ${ms(quantile(all, 0.99))} = ${(quantile(all, 0.99) / quantile(all, 0.5)).toFixed(2)} x; during the prompt p50 ${ms(quantile(inside, 0.5))} p99 ${ms(quantile(inside, 0.99))}`,
  );
}

const o = options(process.argv.slice(2));
const { child, port } = await startServer(o);
try {
  await complete(port, tokens(8), 4);
  console.log('clients  shared   tokens/s  first (p50)  first (p99)   next (p50)   next (p99)');
  for (const clients of o.clients.split(',').map(Number)) await throughput(port, clients, o, 0);
  for (const clients of o.clients.split(',').map(Number)) await throughput(port, clients, o, Number(o.prompt));
  if (Number(o.shared) > 0) await cachedPrefix(port, Number(o.shared));
  if (Number(o.long) > 0) await longPrompt(port, Number(o.long));
} finally {
  child.removeAllListeners('exit');
  child.kill('SIGTERM');
}
