"""Talks to a running spark-serve through the clients that people use, unmodified.

    python real_clients.py http://127.0.0.1:8000

The server should have a small context (256 tokens), so that a prompt that does not fit is short.
Prints a line for each check; exits with 1 at the first that fails.
"""

import asyncio
import sys
import time
import urllib.request

import litellm
import openai
from langchain_openai import ChatOpenAI

ROOT = sys.argv[1].rstrip("/")
BASE = ROOT + "/v1"
HELLO = [{"role": "user", "content": "Hello"}]
TOO_LONG = [{"role": "user", "content": "word " * 2000}]
GREEDY = {"temperature": 0, "max_tokens": 12}

client = openai.OpenAI(base_url=BASE, api_key="none", max_retries=0)
MODEL = client.models.list().data[0].id


def check(name):
    def run(test):
        result = test()
        if asyncio.iscoroutine(result):
            asyncio.run(result)
        print(f"ok  {name}", flush=True)

    return run


def raises(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


def metric(name):
    with urllib.request.urlopen(ROOT + "/metrics", timeout=30) as response:
        for line in response.read().decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[-1])
    raise AssertionError(f"no {name}")


def wait_for(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "did not come true"
        time.sleep(0.02)


@check("openai: an answer in one, with its usage")
def _():
    answer = client.chat.completions.create(model=MODEL, messages=HELLO, **GREEDY)
    assert answer.usage.prompt_tokens == 31, answer.usage
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason in ("stop", "length")


@check("openai: a stream says the same, and its usage once")
def _():
    whole = client.chat.completions.create(model=MODEL, messages=HELLO, **GREEDY)
    stream = client.chat.completions.create(
        model=MODEL, messages=HELLO, stream=True, stream_options={"include_usage": True}, **GREEDY
    )
    chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content, text
    usages = [c.usage for c in chunks if c.usage]
    assert [u.completion_tokens for u in usages] == [whole.usage.completion_tokens], usages
    assert not chunks[-1].choices


@check("openai: a stream without options has its usage too")
def _():
    stream = client.chat.completions.create(model=MODEL, messages=HELLO, stream=True, **GREEDY)
    usages = [c.usage for c in stream if c.usage]
    assert len(usages) == 1 and usages[0].prompt_tokens == 31, usages


@check("openai: the stream helper assembles the answer")
def _():
    with client.chat.completions.stream(model=MODEL, messages=HELLO, **GREEDY) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.content


@check("openai: text completions, log probabilities, a schema")
def _():
    answer = client.completions.create(model=MODEL, prompt="Once upon", temperature=0, max_tokens=5)
    assert answer.usage.completion_tokens == 5
    answer = client.chat.completions.create(
        model=MODEL, messages=HELLO, logprobs=True, top_logprobs=2, **GREEDY
    )
    first = answer.choices[0].logprobs.content[0]
    assert len(first.top_logprobs) == 2 and first.logprob <= 0
    schema = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"],
              "additionalProperties": False}
    answer = client.chat.completions.create(
        model=MODEL, messages=HELLO, temperature=0, max_tokens=60,
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
    )
    assert '"a"' in answer.choices[0].message.content, answer


@check("openai: mistakes are BadRequestError and NotFoundError")
def _():
    def ask(**fields):
        client.chat.completions.create(model=MODEL, **{"messages": HELLO, **fields})

    error = raises(openai.BadRequestError, lambda: ask(temperature=9))
    assert error.status_code == 400 and error.param == "temperature", error
    error = raises(openai.BadRequestError, lambda: ask(messages=TOO_LONG))
    assert error.code == "context_length_exceeded", error
    error = raises(openai.BadRequestError, lambda: ask(messages=TOO_LONG, stream=True))
    assert error.code == "context_length_exceeded", error
    error = raises(openai.NotFoundError, lambda: client.models.retrieve("nobody"))
    assert error.code == "model_not_found", error
    raises(openai.NotFoundError, lambda: client.embeddings.create(model=MODEL, input="x"))


@check("openai: a cancelled stream frees the slot")
def _():
    before = metric("spark_serve_cancelled_while_running_total")
    stream = client.chat.completions.create(
        model=MODEL, messages=HELLO, stream=True, max_tokens=200, extra_body={"ignore_eos": True}
    )
    next(iter(stream))
    stream.close()
    wait_for(lambda: metric("spark_serve_cancelled_while_running_total") == before + 1
             or metric("spark_serve_cancelled_while_queued_total") > 0)
    wait_for(lambda: metric("spark_serve_requests_running") == 0)
    assert client.chat.completions.create(model=MODEL, messages=HELLO, **GREEDY).choices


@check("openai: the asynchronous client, eight at once")
async def _():
    async with openai.AsyncOpenAI(base_url=BASE, api_key="none", max_retries=0) as many:

        async def one():
            stream = await many.chat.completions.create(
                model=MODEL, messages=HELLO, stream=True, **GREEDY
            )
            return "".join([c.choices[0].delta.content or "" async for c in stream if c.choices])

        texts = await asyncio.gather(*(one() for _ in range(8)))
    assert len(set(texts)) == 1 and texts[0], texts


@check("langchain-openai: invoke, stream, usage, a mistake")
def _():
    chat = ChatOpenAI(
        base_url=BASE, api_key="none", model=MODEL, temperature=0, max_tokens=12, max_retries=0,
        stream_usage=True,
    )
    answer = chat.invoke("Hello")
    assert answer.content and answer.usage_metadata["input_tokens"] == 31, answer
    whole = None
    for chunk in chat.stream("Hello"):
        whole = chunk if whole is None else whole + chunk
    assert whole.content == answer.content, whole
    assert whole.usage_metadata["input_tokens"] == 31, whole
    raises(openai.BadRequestError, lambda: chat.invoke("word " * 2000))


@check("litellm: an answer, a stream, the right exceptions")
def _():
    litellm.suppress_debug_info = True

    def ask(**fields):
        return litellm.completion(
            model="openai/" + MODEL, api_base=BASE, api_key="none", num_retries=0,
            **{"messages": HELLO, **fields},
        )

    whole = ask(**GREEDY)
    assert whole.usage.prompt_tokens == 31, whole
    chunks = list(ask(stream=True, stream_options={"include_usage": True}, **GREEDY))
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content, text
    for stream in (False, True):
        raises(litellm.ContextWindowExceededError, lambda: ask(messages=TOO_LONG, stream=stream))
    error = raises(litellm.BadRequestError, lambda: ask(top_p=7))
    assert not isinstance(error, litellm.ContextWindowExceededError), error
