// A live server and its clients, as the benches that time them need both.
import { spawn } from 'node:child_process';
import http from 'node:http';

// Starts `binary` serve `model` with the options `server` on a free port.
export function startServer({ binary, model, server }) {
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
export function complete(port, prompt, maxTokens) {
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
export const tokens = (count) => Array.from({ length: count }, () => 10 + random(200));
export const quantile = (values, q) => [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(q * values.length))] ?? NaN;
export const gaps = (times) => times.slice(1).map((t, i) => t - times[i]);
