"""Makes a Hugging Face folder of a GGUF file, for engines that read no GGUF.

    venvs/vllm/bin/python scripts/engines/gguf_to_hf.py MODEL.gguf FOLDER

The weights stay what they are: transformers reads them out of the GGUF as bf16. It also marks the
model as quantised, since most GGUFs are; that mark goes, or the engine would look for quantised
tensors. The folder appears under its name only when it is complete.
"""

import pathlib
import shutil
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def convert(gguf, folder):
    where = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(**where)
    model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.bfloat16)
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer = None
    model.is_quantized = False

    tokens = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hello"}], add_generation_prompt=True, return_dict=True
    )["input_ids"]
    print(f"one message 'Hello' is {len(tokens)} tokens", file=sys.stderr)

    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".convert-") as work:
        made = pathlib.Path(work) / "model"
        model.save_pretrained(made)
        tokenizer.save_pretrained(made)
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    convert(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
