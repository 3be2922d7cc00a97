// A program that measures on request: one JSON object a line, both ways.
import { spawn } from 'node:child_process';
import readline from 'node:readline';

// Starts it and waits until its model is ready. ask() sends a request and gives its answer; end() lets the program go.
export async function startSession(command, args) {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'] });
  let said = '';
  child.stderr.on('data', (chunk) => (said = (said + chunk).slice(-4000)));
  const ended = new Promise((resolve) => child.on('close', resolve));
  const lines = readline.createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const answer = async () => {
    const { value, done } = await lines.next();
    if (!done) return JSON.parse(value);
    throw new Error(`${command} ${args.join(' ')}\nended with code ${await ended}:\n${said}`);
  };
  const ready = await answer();
  return {
    ready,
    async ask(request) {
      child.stdin.write(`${JSON.stringify(request)}\n`);
      return answer();
    },
    async end() {
      child.stdin.end();
      await ended;
    },
  };
}
