// What the rounds of a comparison come to: medians, shares of what bounds them, and a table.

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// Operations of a prompt: two a weight that multiplies (the head only for the last row), and causal attention.
export function prefillFlops(shape, tokens) {
  const q = shape.num_attention_heads * shape.head_dim;
  const kv = shape.num_key_value_heads * shape.head_dim;
  const { hidden_size: hidden, intermediate_size: inner } = shape;
  const layer = 2 * tokens * (hidden * (q + 2 * kv) + q * hidden + 3 * hidden * inner) + 2 * q * tokens * (tokens + 1);
  return layer * shape.num_hidden_layers + 2 * hidden * shape.vocab_size;
}

// Bytes that a step reads at least: all weights once (both shapes have a tied head), and the 16-bit keys and values of `context` tokens of each.
const kvBytes = (shape) => 2 * 2 * shape.num_key_value_heads * shape.head_dim * shape.num_hidden_layers;
export const stepBytes = (shape, weightBytes, batch, context) => weightBytes + kvBytes(shape) * context * batch;

// The dot-product unit does 8-bit products at twice the rate of the bf16 ones that the ceiling is measured with.
export const peakOf = (format, ceilings) => ceilings.peak_gflops * (format === 'bf16' ? 1 : 2);

const engines = ['lamina', 'peer'];

// The share of its bound that `engine` reaches in one alternation.
function share(shape, run, scenario, turn, engine) {
  const rate = turn[engine].tok_s;
  if (scenario.what === 'prefill') {
    return (prefillFlops(shape, scenario.tokens) / scenario.tokens) * rate / 1e9 / peakOf(run.format, turn.ceilings);
  }
  const bytes = stepBytes(shape, run.weights[engine], scenario.batch, scenario.context + scenario.tokens / 2);
  return (bytes / scenario.batch) * rate / 1e9 / turn.ceilings.read_gb_s;
}

// One line of figures for each scenario of a run: rates, shares, the ratio (medians over the rounds; ratio and share of each round first).
export function summarise(shape, run) {
  const rows = run.scenarios.map((scenario) => {
    const { turns } = scenario;
    const row = { name: scenario.name, unit: 'tok/s', peer_options: scenario.peer_options };
    for (const engine of engines) {
      row[engine] = median(turns.map((turn) => turn[engine].tok_s));
      row[`${engine}_share`] = median(turns.map((turn) => share(shape, run, scenario, turn, engine)));
    }
    row.peer_sampled = turns[0].peer.tok_s_sampled && median(turns.map((turn) => turn.peer.tok_s_sampled));
    row.ratio = median(turns.map((turn) => turn.lamina.tok_s / turn.peer.tok_s));
    row.bound = scenario.what === 'prefill' ? median(turns.map((turn) => peakOf(run.format, turn.ceilings))) : median(turns.map((turn) => turn.ceilings.read_gb_s));
    row.bound_unit = scenario.what === 'prefill' ? 'GFLOP/s' : 'GB/s';
    return row;
  });
  const of = (key, scale = 1) => Object.fromEntries(engines.map((engine) => [engine, median(run.starts.map((start) => start[engine][key])) * scale]));
  const plain = (name, unit, values) => ({ name, unit, ...values, ratio: values.lamina / values.peer });
  const bytes = (engine) => stepBytes(shape, run.weights[engine], 1, 32) / 1e6;
  return [
    plain('load', 's', of('load_s')),
    plain('load to first token', 's', of('ready_s')),
    plain('peak memory', 'GB', of('peak_rss_bytes', 1e-9)),
    plain('bytes a token', 'MB', { lamina: bytes('lamina'), peer: bytes('peer') }),
    ...rows,
  ];
}

const digits = (value) => (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2));
const optional = (value, text) => (value === undefined ? '' : text(value));
const peerOptions = ({ threads, flash }) => `, ${threads} thread${threads > 1 ? 's' : ''}, flash ${flash ? 'on' : 'off'}`;

export function table(shapeName, run) {
  const lines = [
    `### ${shapeName}, ${run.format} against ${run.peer_format}, medians of ${run.starts.length} rounds`,
    '',
    '| | bound | lamina | of bound | llama.cpp | of bound | ratio |',
    '|---|---|---|---|---|---|---|',
  ];
  for (const row of run.summary) {
    const bound = optional(row.bound, (b) => `${digits(b)} ${row.bound_unit}`);
    const peer = `${digits(row.peer)} ${row.unit}${optional(row.peer_options, peerOptions)}`;
    lines.push(
      `| ${row.name} | ${bound} | ${digits(row.lamina)} ${row.unit} | ${optional(row.lamina_share, (s) => s.toFixed(2))} | ${peer} | ` +
        `${optional(row.peer_share, (s) => s.toFixed(2))} | ${row.ratio.toFixed(2)} |`,
    );
  }
  return lines.join('\n');
}

// What the rates of one shape say about each other, a line each.
export function relations(shape, runs) {
  const lines = [];
  const rate = (run, name) => run.summary.find((row) => row.name === name)?.lamina;
  const say = (run, one, other, words) => rate(run, one) && rate(run, other) && lines.push(`* ${run.format}: ${words((rate(run, one) / rate(run, other)).toFixed(2))}`);
  const explained = (prefillFlops(shape, 512) / 512 / (prefillFlops(shape, 4096) / 4096)).toFixed(2);
  const decode = (batch) => `decode, context 32, batch ${batch}`;
  for (const run of runs) {
    say(run, 'prefill 4096', 'prefill 512', (ratio) => `prefill of 4096 at ${ratio} of the rate of 512; counting operations, attention's included, gives ${explained}`);
    say(run, decode(16), decode(1), (ratio) => `batch 16 decodes ${ratio} times the tokens of batch 1`);
  }
  const bf16 = runs.find((run) => run.format === 'bf16');
  for (const run of bf16 ? runs.filter((other) => other !== bf16) : []) {
    lines.push(`* ${run.format}: decodes ${(rate(run, decode(1)) / rate(bf16, decode(1))).toFixed(2)} times as fast as bf16, batch 1`);
  }
  return lines.join('\n');
}
