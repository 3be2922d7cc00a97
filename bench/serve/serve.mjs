// Drives a live server with 1 to 32 clients, with and without a shared prefix.
//   node bench/serve/serve.mjs LAMINA MODEL [--clients 1,4,16,32] [--prompt 256] [--new 64] [--shared 2048] [--long 4096] [-- SERVER OPTIONS]
// Prints output tokens/s, time to first token and inter-token time (p50, p99) a row; then what a cached prefix saves, and what a long
// prompt does to running streams.
import { complete, gaps, quantile, startServer, tokens } from './client.mjs';

function options(argv) {
  const own = argv.includes('--') ? argv.slice(0, argv.indexOf('--')) : argv;
  const server = argv.includes('--') ? argv.slice(argv.indexOf('--') + 1) : [];
  const out = { binary: own[0], model: own[1], clients: '1,2,4,8,16,32', prompt: '256', new: '64', shared: '2048', long: '4096', server };
  for (let i = 2; i + 1 < own.length; i += 2) out[own[i].replace(/^--/, '')] = own[i + 1];
  return out;
}

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
