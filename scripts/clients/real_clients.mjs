// Talks to a running spark-serve through OpenAI's client for Node, unmodified.
//
//   node real_clients.mjs http://127.0.0.1:8000 FOLDER_WITH_NODE_MODULES
//
// The server should have a small context (256 tokens). Prints a line for each check.

import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [root, home] = process.argv.slice(2);
const { default: OpenAI } = createRequire(home + "/")("openai");

const client = new OpenAI({ baseURL: `${root}/v1`, apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: "Hello" }];
const model = (await client.models.list()).data[0].id;
const greedy = { model, messages, temperature: 0, max_tokens: 12 };

async function check(name, test) {
  await test();
  console.log(`ok  ${name}`);
}

async function metric(name) {
  const text = await (await fetch(`${root}/metrics`)).text();
  const line = text.split("\n").find((line) => line.startsWith(`${name} `));
  return Number(line.split(" ").pop());
}

let whole;
await check("openai for Node: an answer in one, with its usage", async () => {
  whole = await client.chat.completions.create(greedy);
  assert.equal(whole.usage.prompt_tokens, 31);
  assert.ok(whole.choices[0].message.content);
});

await check("openai for Node: a stream says the same, and its usage once", async () => {
  const stream = await client.chat.completions.create({
    ...greedy, stream: true, stream_options: { include_usage: true },
  });
  let text = "";
  const usages = [];
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? "";
    if (chunk.usage) usages.push(chunk.usage.completion_tokens);
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.deepEqual(usages, [whole.usage.completion_tokens]);
});

await check("openai for Node: mistakes are BadRequestError", async () => {
  await assert.rejects(client.chat.completions.create({ ...greedy, temperature: 9 }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.param, "temperature");
    return true;
  });
  const long = [{ role: "user", content: "word ".repeat(2000) }];
  for (const stream of [false, true]) {
    await assert.rejects(
      client.chat.completions.create({ ...greedy, messages: long, stream }),
      (error) => error.code === "context_length_exceeded",
    );
  }
});

await check("openai for Node: a cancelled stream frees the slot", async () => {
  const stream = await client.chat.completions.create({
    ...greedy, stream: true, max_tokens: 200, ignore_eos: true,
  });
  for await (const chunk of stream) {
    if (chunk.choices[0].delta.content) break; // Leaving the loop aborts the request.
  }
  const deadline = Date.now() + 120_000;
  while ((await metric("spark_serve_requests_running")) !== 0) {
    assert.ok(Date.now() < deadline, "the slot was never freed");
  }
  assert.ok((await client.chat.completions.create(greedy)).choices.length === 1);
});
