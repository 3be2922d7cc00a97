// usage: compare.mjs BENCH_TEXT: rates of both on 10 MB of English and of Chinese, alternating, by CPU time of one thread each; the best of
// the rounds counts. Fails when the ids differ.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import { folder, modules } from './packages.mjs';
import { chinese, english } from './texts.mjs';

const BYTES = 10e6;
const ROUNDS = 3;
const here = path.dirname(new URL(import.meta.url).pathname);

if (!fs.existsSync(path.join(modules, 'tokenizers'))) {
  console.log(`tokenizer comparison skipped: no npm packages in ${modules}`);
  process.exit(0);
}
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'tokenizer-bench-'));
process.on('exit', () => fs.rmSync(scratch, { recursive: true, force: true }));

class Worker {
  constructor(command, args) {
    const env = { ...process.env, RAYON_NUM_THREADS: '1', TOKENIZERS_PARALLELISM: 'false' };
    this.child = spawn(command, args, { env, stdio: ['pipe', 'pipe', 'inherit'] });
    this.lines = readline.createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();
  }
  async encode(file) {
    this.child.stdin.write(file + '\n');
    const { value, done } = await this.lines.next();
    if (done) throw new Error(`${this.child.spawnfile} ended early`);
    return JSON.parse(value);
  }
  close() {
    this.child.stdin.end();
  }
}

const files = [];
for (const [name, make] of [['English', english], ['Chinese', chinese]]) {
  const file = path.join(scratch, name);
  fs.writeFileSync(file, make(BYTES).join('\0'));
  files.push({ name, file, bytes: fs.statSync(file).size });
}

let wrong = 0;
console.log('tokenizer  text       lamina MB/s  Rust MB/s  ratio  tokens');
for (const name of ['llama3', 'qwen3']) {
  const ours = new Worker(process.argv[2], ['--worker', folder(name)]);
  const rust = new Worker(process.execPath, [path.join(here, 'rust_worker.mjs'), folder(name)]);
  for (const text of files) {
    let ourBest = Infinity;
    let rustBest = Infinity;
    let tokens = 0;
    for (let round = 0; round < ROUNDS; ++round) {
      const a = await ours.encode(text.file);
      const b = await rust.encode(text.file);
      ourBest = Math.min(ourBest, a.seconds);
      rustBest = Math.min(rustBest, b.seconds);
      tokens = a.tokens;
      if (a.tokens !== b.tokens || a.hash !== b.hash) wrong = 1;
    }
    const rate = (seconds) => (text.bytes / 1e6 / seconds).toFixed(1);
    const row = [name.padEnd(10), text.name.padEnd(10), rate(ourBest).padStart(11), rate(rustBest).padStart(10)];
    console.log(...row, (rustBest / ourBest).toFixed(2).padStart(6), String(tokens).padStart(8));
  }
  ours.close();
  rust.close();
}
if (wrong) console.log('error: the ids differ');
process.exitCode = wrong;
