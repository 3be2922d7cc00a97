// The official client against a live server: node client.mjs BASE_URL. Prints "ok NAME" for each check; exits 1 at the first failure.
import assert from "node:assert/strict";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.argv[2] + "/v1", apiKey: "secret", maxRetries: 0 });
const model = "demo";
const messages = [{ role: "user", content: "What is a glacier?" }];
const gloss = "a slowly moving mass of ice";
const prompt = "<|user|>What is a glacier?<|end|><|assistant|>";

async function refused(promise) {
  try {
    await promise;
  } catch (fault) {
    return fault;
  }
  assert.fail("was not refused");
}

const checks = {
  async models() {
    const ids = [];
    for await (const card of await client.models.list()) ids.push(card.id);
    assert.deepEqual(ids, [model]);
    assert.equal((await client.models.retrieve(model)).object, "model");
    const fault = await refused(client.models.retrieve("other"));
    assert.ok(fault instanceof OpenAI.NotFoundError);
    assert.equal(fault.code, "model_not_found");
  },

  async completions() {
    const answer = await client.completions.create({ model, prompt, temperature: 0, max_tokens: 30 });
    assert.equal(answer.choices[0].text, gloss);
    assert.equal(answer.choices[0].finish_reason, "stop");
    assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
  },

  async chat() {
    const answer = await client.chat.completions.create({ model, messages, temperature: 0 });
    assert.equal(answer.choices[0].message.content, gloss);
    assert.equal(answer.choices[0].message.role, "assistant");
  },

  async chatStream() {
    const stream = await client.chat.completions.create({
      model, messages, temperature: 0, stream: true, stream_options: { include_usage: true },
    });
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    const last = chunks.pop();
    assert.deepEqual(last.choices, []);
    assert.equal(last.usage.completion_tokens, 8);
    assert.ok(chunks.every((chunk) => chunk.choices.length === 1 && !chunk.usage));
    assert.equal(chunks.map((chunk) => chunk.choices[0].delta.content ?? "").join(""), gloss);
    assert.deepEqual(chunks.filter((chunk) => chunk.choices[0].finish_reason).length, 1);
  },

  async streamHelper() {
    const runner = client.chat.completions.stream({ model, messages, temperature: 0, stream_options: { include_usage: true } });
    let text = "";
    runner.on("content", (delta) => (text += delta));
    const final = await runner.finalChatCompletion();
    assert.equal(text, gloss);
    assert.equal(final.choices[0].message.content, gloss);
    assert.equal(final.choices[0].finish_reason, "stop");
    assert.equal((await runner.totalUsage()).completion_tokens, 8);
  },

  async completionStream() {
    let text = "";
    for await (const chunk of await client.completions.create({ model, prompt, temperature: 0, max_tokens: 30, stream: true })) {
      text += chunk.choices[0].text;
    }
    assert.equal(text, gloss);
  },

  async embeddings() {
    const input = ["glacier", "violin"];
    const packed = await client.embeddings.create({ model, input }); // base64 on the wire
    const plain = await client.embeddings.create({ model, input, encoding_format: "float" });
    assert.equal(packed.data.length, 2);
    for (const [i, item] of packed.data.entries()) {
      assert.equal(item.index, i);
      assert.equal(item.embedding.length, 256);
      const norm = Math.hypot(...item.embedding);
      assert.ok(Math.abs(norm - 1) < 1e-5, `norm ${norm}`);
      item.embedding.forEach((value, j) => assert.equal(value, Math.fround(plain.data[i].embedding[j])));
    }
    const short = await client.embeddings.create({ model, input: "glacier", dimensions: 8 });
    assert.equal(short.data[0].embedding.length, 8);
  },

  async severalChoices() {
    const ask = { model, messages, temperature: 3, seed: 11, n: 2, max_tokens: 12 };
    const first = await client.chat.completions.create(ask);
    const again = await client.chat.completions.create(ask);
    assert.deepEqual(first.choices.map((choice) => choice.index), [0, 1]);
    assert.notEqual(first.choices[0].message.content, first.choices[1].message.content);
    assert.deepEqual(first.choices, again.choices);
    const texts = ["", ""];
    for await (const chunk of await client.chat.completions.create({ ...ask, stream: true })) {
      texts[chunk.choices[0].index] += chunk.choices[0].delta.content ?? "";
    }
    assert.deepEqual(texts, first.choices.map((choice) => choice.message.content));
  },

  async stop() {
    const answer = await client.chat.completions.create({ model, messages, temperature: 0, stop: ["moving ma", "never"] });
    assert.equal(answer.choices[0].message.content, "a slowly ");
    assert.equal(answer.choices[0].finish_reason, "stop");
  },

  async chatLogprobs() {
    const answer = await client.chat.completions.create({ model, messages, temperature: 0, logprobs: true, top_logprobs: 3 });
    const content = answer.choices[0].logprobs.content;
    assert.equal(content.length, answer.usage.completion_tokens);
    const bytes = content.slice(0, -1).flatMap((entry) => entry.bytes); // the last one is the token that ends the answer
    assert.equal(Buffer.from(bytes).toString(), gloss);
    for (const entry of content) {
      assert.equal(entry.top_logprobs.length, 3);
      assert.equal(entry.top_logprobs[0].token, entry.token); // greedy
      assert.equal(entry.top_logprobs[0].logprob, entry.logprob);
      assert.ok(entry.logprob <= 0 && entry.top_logprobs[1].logprob <= entry.logprob);
    }
  },

  async echoWithLogprobs() {
    const answer = await client.completions.create({ model, prompt, temperature: 0, max_tokens: 8, logprobs: 1, echo: true });
    const { tokens, token_logprobs, top_logprobs, text_offset } = answer.choices[0].logprobs;
    assert.equal(answer.choices[0].text, prompt + gloss);
    const count = answer.usage.prompt_tokens;
    for (const list of [tokens, token_logprobs, top_logprobs, text_offset]) assert.equal(list.length, answer.usage.total_tokens);
    assert.equal(token_logprobs[0], null);
    assert.ok(token_logprobs.slice(1).every((value) => value <= 0));
    assert.equal(text_offset[count], prompt.length);
    tokens.slice(1, -1).forEach((token, i) => assert.equal(answer.choices[0].text.startsWith(token, text_offset[i + 1]), true, token));

    // What the prompt's tokens get is what the model gives them when it generates them.
    const own = await client.completions.create({ model, prompt, temperature: 0, max_tokens: 8, logprobs: 1 });
    const scored = await client.completions.create({
      model, prompt: prompt + gloss + "<|end|>", temperature: 0, max_tokens: 0, logprobs: 1, echo: true,
    });
    assert.deepEqual(scored.choices[0].logprobs.tokens.slice(count), own.choices[0].logprobs.tokens);
    assert.deepEqual(scored.choices[0].logprobs.token_logprobs.slice(count), own.choices[0].logprobs.token_logprobs);
  },

  async errors() {
    const fault = await refused(client.chat.completions.create({ model, messages, temperature: -1 }));
    assert.ok(fault instanceof OpenAI.BadRequestError);
    assert.equal(fault.param, "temperature");
    assert.equal(fault.type, "invalid_request_error");
    const denied = await refused(new OpenAI({ baseURL: process.argv[2] + "/v1", apiKey: "wrong", maxRetries: 0 }).models.list());
    assert.ok(denied instanceof OpenAI.AuthenticationError);
    const tools = [{ type: "function", function: { name: "f", parameters: {} } }];
    assert.equal((await refused(client.chat.completions.create({ model, messages, tools }))).param, "tools");
  },

  async abortedStream() {
    const stream = await client.chat.completions.create({
      model, messages, temperature: 1, stream: true, max_tokens: 400, ignore_eos: true,
    });
    let seen = 0;
    for await (const chunk of stream) {
      if (chunk.choices[0].delta.content && ++seen === 3) break; // the client closes the connection
    }
    const controller = new AbortController();
    const waiting = client.chat.completions.create(
      { model, messages, temperature: 1, max_tokens: 480, n: 64, ignore_eos: true }, { signal: controller.signal });
    controller.abort();
    assert.ok((await refused(waiting)) instanceof OpenAI.APIUserAbortError);
    const running = async () => {
      const text = await (await fetch(process.argv[2] + "/metrics", { headers: { Authorization: "Bearer secret" } })).text();
      return Number(/^lamina_num_running_reqs{.*} (\d+)$/m.exec(text)[1]) + Number(/^lamina_num_queue_reqs{.*} (\d+)$/m.exec(text)[1]);
    };
    const deadline = Date.now() + 120000;
    while ((await running()) > 0) assert.ok(Date.now() < deadline, "requests of clients that went away still run");
    assert.equal((await client.chat.completions.create({ model, messages, temperature: 0 })).choices[0].message.content, gloss);
  },
};

for (const [name, check] of Object.entries(checks)) {
  await check();
  console.log("ok " + name);
}
