// llama.cpp under measurement: node llama_cpp.mjs PACKAGES GGUF. Prints one JSON object once the model has answered a prompt of one token, then
// answers one request a line of stdin with one object, like `lamina bench --session`. A request also says "threads" and "flash" (attention):
//   {"what":"prefill","tokens":N}                        {"what":"decode","context":N,"batch":B,"tokens":N}
//   {"what":"generate","prompt":[...],"tokens":N}        {"what":"serve","clients":N,"prompt":N,"tokens":N}
//   {"what":"memory"}
// It talks to llama.cpp through the package's own binding, below its queues and prompt cache: every call computes what it is given. Batches
// are of 512 tokens; the CPU computes everything.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import { pathToFileURL } from 'node:url';

const [packages, file] = process.argv.slice(2);
const started = performance.now();
const { getLlama } = await import(pathToFileURL(path.resolve(packages, 'node_modules/node-llama-cpp/dist/index.js')));
const importedAt = performance.now();

const BATCH = 512;
const LONG = 1024; // contexts from here on are computed once and restored from a file
const llama = await getLlama({ gpu: false, build: 'never', progressLogs: false, logLevel: 'error', logger: (level, text) => process.stderr.write(`${level}: ${text}\n`) });
const { AddonModel, AddonContext, AddonSampler } = llama._bindings;
const model = new AddonModel(file, { addonExports: llama._bindings, gpuLayers: 0, useMmap: true });
if (!(await model.init())) throw new Error(`${file}: llama.cpp does not load it`);
const loadedAt = performance.now();
const vocab = 100000; // ids below it exist in both shapes
const states = fs.mkdtempSync(path.join(os.tmpdir(), 'lamina-bench-'));
process.on('exit', () => fs.rmSync(states, { recursive: true, force: true }));

let seed = 1;
const randomId = () => (seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff) % vocab;
const randomIds = (count) => Uint32Array.from({ length: count }, randomId);
const LAST = (ids) => Uint32Array.of(ids.length - 1);
const NONE = new Uint32Array();
const seconds = (from) => (performance.now() - from) / 1000;

// The context of a request. It goes with the request: its keys and values are what most memory goes to.
let held = null;
async function contextFor({ flash, threads, sequences, length }) {
  const contextSize = Math.ceil(length / 256) * 256 * sequences;
  held = new AddonContext(model, { contextSize, batchSize: BATCH, sequences, flashAttention: flash, threads });
  if (!(await held.init())) throw new Error(`no context of ${contextSize} tokens`);
  held.setThreads(threads);
  await decode(held, [{ sequence: 0, position: 0, ids: randomIds(32), logits: NONE }]); // first touch of its buffers
  held.disposeSequence(0);
  return held;
}

// Computes one batch; the positions in it whose logits were asked for.
async function decode(context, parts) {
  context.initBatch(parts.reduce((sum, part) => sum + part.ids.length, 0));
  const rows = parts.flatMap((part) => [...context.addToBatch(part.sequence, part.position, part.ids, part.logits)]);
  await context.decodeBatch();
  return rows;
}

function greedySampler() {
  const sampler = new AddonSampler(model);
  sampler.applyConfig({ temperature: 0 });
  return sampler;
}
const sampler = greedySampler();

// Computes `ids` from position 0 on; the row of the last one's logits.
async function prompt(context, sequence, ids) {
  let rows = [];
  for (let at = 0; at < ids.length; at += BATCH) {
    const piece = ids.subarray(at, at + BATCH);
    rows = await decode(context, [{ sequence, position: at, ids: piece, logits: at + BATCH >= ids.length ? LAST(piece) : NONE }]);
  }
  return rows[0];
}

// A saved sequence fits only contexts with as many sequences, so batches over long contexts share one such number.
const sequencesFor = (length, batch) => (batch > 1 && length >= LONG ? Math.max(batch, 16) : batch);
const stateFile = (length, sequences, flash) => path.join(states, `${length}-${sequences}-${flash}`);

async function prefill({ tokens, threads, flash }) {
  const context = await contextFor({ flash, threads, sequences: 1, length: tokens + 1 });
  const ids = randomIds(tokens);
  const start = performance.now();
  await context.sampleToken(await prompt(context, 0, ids), sampler);
  const elapsed = seconds(start);
  const saved = stateFile(tokens, 1, flash);
  if (tokens >= LONG && !fs.existsSync(saved)) await context.saveSequenceStateToFile(saved, 0, ids);
  return { seconds: elapsed, tok_s: tokens / elapsed };
}

// Gives every sequence of the batch `length` tokens of keys and values of its own.
async function fillContext(context, { context: length, batch, flash }) {
  const saved = stateFile(length, sequencesFor(length, batch), flash);
  for (let s = 0; s < batch; ++s) {
    if (length >= LONG && fs.existsSync(saved)) {
      await context.loadSequenceStateFromFile(saved, s, length);
      continue;
    }
    const ids = randomIds(length);
    await prompt(context, s, ids);
    if (length >= LONG) await context.saveSequenceStateToFile(saved, s, ids);
  }
}

async function decodeSteps({ context: length, batch, tokens, threads, flash }) {
  const context = await contextFor({ flash, threads, sequences: sequencesFor(length, batch), length: length + tokens + 1 });
  await fillContext(context, { context: length, batch, flash });
  const step = (position) =>
    decode(context, Array.from({ length: batch }, (_, sequence) => ({ sequence, position, ids: randomIds(1), logits: Uint32Array.of(0) })));
  await step(length);
  let computing = 0;
  const start = performance.now();
  for (let i = 1; i <= tokens; ++i) {
    const before = performance.now();
    const rows = await step(length + i);
    computing += seconds(before);
    for (const row of rows) await context.sampleToken(row, sampler);
  }
  return { tok_s: (batch * tokens) / computing, tok_s_sampled: (batch * tokens) / seconds(start), context: length + tokens / 2 };
}

// Greedy tokens, and the probabilities of the 20 likeliest first ones.
async function generate({ prompt: ids, tokens, threads, flash }) {
  const context = await contextFor({ flash, threads, sequences: 1, length: ids.length + tokens });
  let row = await prompt(context, 0, Uint32Array.from(ids));
  const [, pairs] = await context.sampleToken(row, greedySampler(), true);
  const top = Array.from({ length: 20 }, (_, i) => ({ id: pairs[2 * i], probability: pairs[2 * i + 1] }));
  const output = [];
  for (let position = ids.length; output.length < tokens; ++position) {
    output.push(await context.sampleToken(row, sampler));
    [row] = await decode(context, [{ sequence: 0, position, ids: Uint32Array.of(output.at(-1)), logits: Uint32Array.of(0) }]);
  }
  return { output, top };
}

// Continuous batching as llama.cpp's server does it: each batch holds a token of every sequence that decodes, and prompts in what is left of
// 512. All clients arrive at once. Times in ms of each token of each client.
async function serve({ clients, prompt: length, tokens, threads, flash }) {
  const context = await contextFor({ flash, threads, sequences: clients, length: length + tokens });
  const running = Array.from({ length: clients }, (_, sequence) => ({ sequence, ids: randomIds(length), done: 0, last: -1, times: [] }));
  const start = performance.now();
  while (running.some((r) => r.times.length < tokens)) {
    const parts = running
      .filter((r) => r.last >= 0 && r.times.length < tokens)
      .map((r) => ({ of: r, sequence: r.sequence, position: length + r.times.length - 1, ids: Uint32Array.of(r.last), logits: Uint32Array.of(0) }));
    let room = BATCH - parts.length;
    for (const r of running.filter((one) => one.done < length)) {
      const piece = r.ids.subarray(r.done, r.done + room);
      if (piece.length === 0) break;
      const ends = r.done + piece.length === length;
      parts.push({ of: r, sequence: r.sequence, position: r.done, ids: piece, logits: ends ? LAST(piece) : NONE });
      r.done += piece.length;
      room -= piece.length;
    }
    const rows = await decode(context, parts);
    const asked = parts.filter((part) => part.logits.length > 0);
    for (const [i, part] of asked.entries()) {
      part.of.last = await context.sampleToken(rows[i], sampler);
      part.of.times.push(performance.now() - start);
    }
  }
  return { seconds: seconds(start), times: running.map((r) => r.times) };
}

function memory() {
  const peak = /VmHWM:\s+(\d+) kB/.exec(fs.readFileSync('/proc/self/status', 'utf8'));
  return { peak_rss_bytes: Number(peak[1]) * 1024 };
}

const measurements = { prefill, decode: decodeSteps, generate, serve, memory };
const print = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const threads = os.availableParallelism();
await prefill({ tokens: 1, threads, flash: true });
await held.dispose();
print({
  what: 'ready',
  load_s: (loadedAt - importedAt) / 1000,
  ready_s: seconds(importedAt),
  import_s: (importedAt - started) / 1000,
  weight_bytes: fs.statSync(file).size,
  system: llama._bindings.systemInfo().trim(),
});
for await (const line of readline.createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  if (!measurements[request.what]) throw new Error(`'${request.what}' is no measurement; there are ${Object.keys(measurements).join(', ')}`);
  const result = await measurements[request.what](request);
  await held?.dispose(); // before the answer: what is measured next shall not wait for it
  held = null;
  print({ what: request.what, ...result });
}
process.exit(0);
