// The Rust library on one core: as bench_text --worker, for the tokenizer folder in argv.
import fs from 'node:fs';
import readline from 'node:readline';
import { library } from './packages.mjs';

const tokenizer = library().Tokenizer.fromFile(`${process.argv[2]}/tokenizer.json`);
for await (const file of readline.createInterface({ input: process.stdin })) {
  const texts = fs.readFileSync(file, 'utf8').split('\0');
  const start = process.cpuUsage();
  const encodings = await tokenizer.encodeBatch(texts, { addSpecialTokens: false });
  const { user, system } = process.cpuUsage(start);
  let tokens = 0;
  let hash = 2166136261;
  for (const encoding of encodings) {
    const ids = encoding.getIds();
    tokens += ids.length;
    for (const id of ids) hash = Math.imul(hash ^ id, 16777619);
  }
  console.log(JSON.stringify({ seconds: (user + system) / 1e6, tokens, hash: hash >>> 0 }));
}
