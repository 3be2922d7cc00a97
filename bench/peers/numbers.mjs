// Whether both engines compute the same model: the same greedy tokens of the bf16 files, and close probabilities of the likeliest first ones.
import { execFileSync } from 'node:child_process';

const PROMPT = [11, 4242, 977, 31, 60001, 15, 7, 2048, 90210, 333, 12, 64, 51003, 8, 19, 740]; // ids of both shapes
const TOKENS = 8;
// Of a logarithm of a probability. Rounding to 16 bits moves it by some hundredths; rows of q and k in a wrong order, by more than one.
const TOLERANCE = 0.15;

function laminaSays(lamina, model) {
  const run = (command, ...rest) =>
    JSON.parse(execFileSync(lamina, [command, model, '--prompt-ids', PROMPT.join(','), '--max-total-tokens', '256', ...rest], { maxBuffer: 1 << 30, stdio: ['ignore', 'pipe', 'ignore'] }));
  const logits = run('logits').logits.at(-1);
  const most = logits.reduce((a, b) => Math.max(a, b));
  const total = Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - most), 0));
  return { output: run('generate', '--json', '--ignore-eos', '--max-new-tokens', String(TOKENS)).output_ids, logprob: (id) => logits[id] - most - total };
}

export async function compareNumbers(lamina, model, startPeer) {
  const ours = laminaSays(lamina, model);
  const peer = await startPeer();
  const theirs = await peer.ask({ what: 'generate', prompt: PROMPT, tokens: TOKENS, threads: 1, flash: false });
  await peer.end();
  const worst = Math.max(...theirs.top.map(({ id, probability }) => Math.abs(Math.log(probability) - ours.logprob(id))));
  const differs = theirs.output.findIndex((id, i) => id !== ours.output[i]);
  const result = { lamina: ours.output, llama_cpp: theirs.output, equal_tokens: differs < 0 ? TOKENS : differs, worst_logprob_difference: worst };
  if (!(worst <= TOLERANCE)) throw new Error(`the engines do not compute the same model: ${JSON.stringify(result)}`);
  return result;
}
