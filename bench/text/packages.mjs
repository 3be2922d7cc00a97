// The npm packages: under $LAMINA_NODE_MODULES, else the checkout's node_modules.
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
export const modules = process.env.LAMINA_NODE_MODULES ?? path.join(root, 'node_modules');
export const library = () => createRequire(path.join(modules, 'x'))(path.join(modules, 'tokenizers'));
export const folder = (name) => path.join(modules, '@lenml', `tokenizer-${name}`, 'models');
export const glosses = path.join(root, 'models/demo/glosses.tsv');
