// The bench's texts: the same bytes in every run, long enough vocabularies that no word cache holds them all.
import fs from 'node:fs';
import { folder, glosses } from './packages.mjs';

// mulberry32, a 32-bit generator
function generator(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

// An item of `list` by Zipf's law (density about 1/rank).
const zipf = (list, random) => list[Math.floor(Math.exp(random() * Math.log(list.length + 1)) - 1)] ?? list[0];
const among = (list, random) => list[Math.floor(random() * list.length)];

function documents(paragraph, bytes, random) {
  const texts = [];
  for (let total = 0; total < bytes; ) {
    let text = '';
    while (text.length < 2000 + 12000 * random()) text += paragraph();
    texts.push(text);
    total += Buffer.byteLength(text);
  }
  return texts;
}

function invented(random) {
  let word = '';
  for (let i = 2 + Math.floor(3 * random()); i > 0; --i) word += among('bcdfghklmnprstvwz'.split(''), random) + among(['a', 'e', 'i', 'o', 'u', 'ar', 'en', 'il'], random);
  return word[0].toUpperCase() + word.slice(1);
}

// Sentences of words as frequent as in the glosses' rank order, of whole glosses, of numbers, invented names and contractions.
export function english(bytes) {
  const random = generator(1);
  const lines = fs.readFileSync(glosses, 'utf8').trim().split('\n').map((line) => line.split('\t'));
  const counts = new Map();
  for (const line of lines) for (const word of line.join(' ').split(/[^A-Za-z'-]+/)) if (word) counts.set(word, (counts.get(word) ?? 0) + 1);
  const words = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a) || (a < b ? -1 : 1));
  const word = () => {
    const kind = random();
    if (kind < 0.02) return invented(random);
    if (kind < 0.03) return String(Math.floor(Math.exp(random() * 12)));
    if (kind < 0.04) return zipf(words, random) + among(["'s", "'ll", "n't", "'re"], random);
    return zipf(words, random);
  };
  const sentence = () => {
    let text = '';
    if (random() < 0.3) text = among(lines, random)[1];
    else for (let i = 5 + Math.floor(20 * random()); i > 0; --i) text += word() + (i === 1 ? '' : random() < 0.08 ? ', ' : ' ');
    return text[0].toUpperCase() + text.slice(1) + among(['.', '.', '.', '.', '?', '!', ';', ':'], random);
  };
  const paragraph = () => {
    let text = '';
    for (let i = 2 + Math.floor(6 * random()); i > 0; --i) text += (random() < 0.1 ? `"${sentence()}"` : sentence()) + ' ';
    return text.trimEnd() + '\n\n';
  };
  return documents(paragraph, bytes, random);
}

// Chinese words are the tokens of qwen3's vocabulary that are Han characters, in the order they were learnt; among them single characters
// of the 3755 most common ones (GB 2312, level 1), numbers, and the odd Latin word.
export function chinese(bytes) {
  const random = generator(2);
  const { vocab } = JSON.parse(fs.readFileSync(`${folder('qwen3')}/tokenizer.json`, 'utf8')).model;
  const byte = new Map();
  for (let b = 0, next = 256; b < 256; ++b) byte.set(String.fromCodePoint((b > 32 && b < 127) || (b > 160 && b !== 173) ? b : next++), b);
  const words = [];
  for (const [token] of Object.entries(vocab).sort((a, b) => a[1] - b[1])) {
    const text = Buffer.from([...token].map((c) => byte.get(c))).toString('utf8');
    if (/^[\u4e00-\u9fa5]+$/.test(text)) words.push(text);
  }
  const decoder = new TextDecoder('gbk');
  const characters = [];
  for (let high = 0xb0; high <= 0xd7; ++high) for (let low = 0xa1; low <= (high === 0xd7 ? 0xf9 : 0xfe); ++low) characters.push(decoder.decode(Uint8Array.of(high, low)));
  const clause = () => {
    let text = '';
    for (let i = 2 + Math.floor(9 * random()); i > 0; --i) {
      const kind = random();
      if (kind < 0.15) text += among(characters, random);
      else if (kind < 0.17) text += String(Math.floor(Math.exp(random() * 8)));
      else if (kind < 0.18) text += among(['GDP', 'App', 'iPhone', 'Python', 'AI'], random);
      else text += zipf(words, random);
    }
    return text;
  };
  const paragraph = () => {
    let text = '';
    for (let i = 3 + Math.floor(12 * random()); i > 0; --i) text += clause() + (i === 1 ? '。' : among(['，', '，', '，', '。', '、', '；', '？', '！', '：'], random));
    return (random() < 0.1 ? `“${text}”` : text) + '\n';
  };
  return documents(paragraph, bytes, random);
}
