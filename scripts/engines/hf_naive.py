"""The "before" picture of LLM serving: transformers' `generate` behind FastAPI, one at a time.

    venvs/hf/bin/python scripts/engines/hf_naive.py --model MODEL [--alias NAME] [--port 8000]

MODEL is a GGUF file, a Hugging Face folder, or a model's name on the hub. A lock around the model
lets one request onto the device at a time; the others wait in their threads, and nobody batches
anything. What it gets right, because a benchmark needs it: text is sent as it is made, tokens are
counted from the ids that `generate` returns, and `/health` answers while a request runs.

What it does not do, on purpose: it does not notice that a client has gone. The answer is made to
its end for nobody while the others wait. And it sends text in whole words, as the streamer
gives it, so events are not tokens.
"""

import argparse
import importlib.metadata
import json
import pathlib
import threading
import time
import uuid

import torch
import uvicorn
from fastapi import FastAPI, HTTPException
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, Field
from transformers import AutoModelForCausalLM, AutoTokenizer, TextIteratorStreamer
from transformers.utils.logging import disable_progress_bar

# The longest wait for the next piece of text before the generating thread is taken for dead.
# A long prefill on a slow machine takes a minute; nothing takes ten.
PIECE_DEADLINE_S = 600.0


class Request(BaseModel):
    """The part of OpenAI's chat request that this server knows; the rest is ignored."""

    model: str | None = None
    messages: list[dict] = Field(min_length=1)
    max_tokens: int = Field(default=256, ge=1)
    temperature: float = Field(default=0.0, ge=0.0)
    stream: bool = False
    ignore_eos: bool = False


class Generation(threading.Thread):
    """One call of `generate`, in a thread of its own; iterating over it gives the text."""

    def __init__(self, engine, ids, request):
        super().__init__(daemon=True)
        self.engine, self.ids, self.request = engine, ids, request
        self.n_out, self.error, self.finish_reason = 0, None, None
        self.streamer = TextIteratorStreamer(
            engine.tokenizer, skip_prompt=True, skip_special_tokens=True, timeout=PIECE_DEADLINE_S
        )

    def options(self):
        request = self.request
        options = {"max_new_tokens": request.max_tokens, "do_sample": request.temperature > 0}
        if request.temperature > 0:
            options["temperature"] = request.temperature
        if request.ignore_eos:
            # As many as the most: `generate` then bans every end-of-sequence token.
            options["min_new_tokens"] = request.max_tokens
        return options

    def run(self):
        n_prompt = self.ids["input_ids"].shape[1]
        try:
            with torch.inference_mode():
                output = self.engine.model.generate(
                    **self.ids, **self.options(), streamer=self.streamer
                )
            self.n_out = output.shape[1] - n_prompt
            self.finish_reason = "length" if self.n_out >= self.request.max_tokens else "stop"
        except Exception as error:  # Whatever it is, the client must hear of it.
            self.error = f"{type(error).__name__}: {error}"
            self.streamer.end()

    def pieces(self):
        self.start()
        try:
            yield from (text for text in self.streamer if text)
        finally:
            # Also when the client has gone: the next request must not share the device with this.
            self.join()


class Engine:
    """The model, its tokenizer and the lock."""

    def __init__(self, source, alias, device):
        path = pathlib.Path(source)
        where = {"pretrained_model_name_or_path": source}
        if path.suffix == ".gguf":
            where = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
        self.alias = alias or path.stem
        self.tokenizer = AutoTokenizer.from_pretrained(**where)
        model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.bfloat16)
        self.model = model.to(device).eval()
        self.context = self.model.config.max_position_embeddings
        self.lock = threading.Lock()

    def prompt(self, messages):
        ids = self.tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        return ids.to(self.model.device)


def frame(payload):
    return f"data: {json.dumps(payload)}\n\n"


class Answer:
    """One request's answer, streamed or whole."""

    def __init__(self, engine, ids, request):
        self.engine, self.ids, self.request = engine, ids, request
        self.head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": engine.alias}

    def usage(self, generation):
        n_prompt = self.ids["input_ids"].shape[1]
        return {
            "prompt_tokens": n_prompt,
            "completion_tokens": generation.n_out,
            "total_tokens": n_prompt + generation.n_out,
        }

    def chunk(self, delta, finish_reason=None, **more):
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return frame({**self.head, "object": "chat.completion.chunk", "choices": [choice], **more})

    def events(self):
        """A plain generator: Starlette runs it in a thread, so the event loop stays free."""
        with self.engine.lock:
            generation = Generation(self.engine, self.ids, self.request)
            yield self.chunk({"role": "assistant", "content": ""})
            for text in generation.pieces():
                yield self.chunk({"content": text})
            if generation.error:
                yield frame({"error": {"message": generation.error, "type": "server_error"}})
            else:
                yield self.chunk({}, generation.finish_reason, usage=self.usage(generation))
            yield "data: [DONE]\n\n"

    def whole(self):
        with self.engine.lock:
            generation = Generation(self.engine, self.ids, self.request)
            text = "".join(generation.pieces())
        if generation.error:
            return JSONResponse({"error": {"message": generation.error, "type": "server_error"}}, 500)
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": generation.finish_reason}
        return JSONResponse({
            **self.head, "object": "chat.completion", "choices": [choice], "usage": self.usage(generation),
        })


def app_of(engine):
    app = FastAPI()

    @app.get("/health")
    async def health():
        return {"status": "ok"}

    @app.get("/v1/models")
    async def models():
        card = {"id": engine.alias, "object": "model", "created": 0, "owned_by": "local"}
        return {"object": "list", "data": [{**card, "max_model_len": engine.context}]}

    @app.get("/version")
    async def version():
        return {"version": versions()}

    @app.post("/v1/chat/completions")
    def chat(request: Request):
        try:
            ids = engine.prompt(request.messages)
        except Exception as error:  # A template refuses conversations in its own ways.
            raise HTTPException(400, f"the chat template refuses these messages: {error}") from error
        if ids["input_ids"].shape[1] >= engine.context:
            raise HTTPException(400, f"the prompt is longer than the model's {engine.context} tokens")
        answer = Answer(engine, ids, request)
        if not request.stream:
            return answer.whole()
        return StreamingResponse(answer.events(), media_type="text/event-stream")

    return app


def versions():
    packages = ("transformers", "torch", "fastapi", "uvicorn")
    return ", ".join(f"{package} {importlib.metadata.version(package)}" for package in packages)


def main():
    parser = argparse.ArgumentParser(description="transformers' generate, one request at a time")
    parser.add_argument("--version", action="version", version=f"hf-naive ({versions()})")
    parser.add_argument("--model", required=True, help="a GGUF file, a folder, or a name on the hub")
    parser.add_argument("--alias", help="the model's id in /v1/models (default: the file's stem)")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--threads", type=int, help="of torch (default: its own choice)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    disable_progress_bar()  # Into a log file it would be thousands of lines.
    engine = Engine(arguments.model, arguments.alias, arguments.device)
    # The port opens only now: until then the model is not there.
    uvicorn.run(app_of(engine), host=arguments.host, port=arguments.port, log_level="warning")


if __name__ == "__main__":
    main()
