"""scripted: a model file whose answers are written down: each token has one successor.

In: scripts, each a name and its pieces (bytes). Out: a GGUF file of the architecture llama: an embedding of one-hot rows,
a block that adds nothing, an output matrix that leads each token to the next of its script. A script begins behind the
special token <|NAME|>, and ends with the end-of-turn token. Pieces are vocabulary entries of their own, whatever bytes
they hold, so that characters, stop texts and markers are cut exactly where a test wants them cut.
Chats begin the script that the template variable "script" names, or the one called "default".
Example: write("m.gguf", {"default": [b"Hi", b"!"]}); a chat answers "Hi!".
"""
import numpy as np

END = "<|end|>"
BLOCK = 32                      # dimensions come in multiples of it


def byte_spellings():
    """How a byte-level vocabulary spells each byte."""
    out, spare = [], 0
    for byte in range(256):
        if 0x21 <= byte <= 0x7E or 0xA1 <= byte <= 0xAC or 0xAE <= byte <= 0xFF:
            out.append(chr(byte))
        else:
            out.append(chr(0x100 + spare))
            spare += 1
    return out


def template_of(scripts):
    cases = "".join(f"{'{% if' if i == 0 else '{% elif'} script == '{name}' %}}<|{name}|>" for i, name in enumerate(scripts))
    return ("{% for m in messages %}[{{ m.role }}] {{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name }}"
            "{% endfor %}{{ '\\n' }}{% endfor %}{% if tools %}[tools {{ tools | length }}]{% endif %}"
            "{% if enable_thinking is defined %}[thinking {{ enable_thinking }}]{% endif %}"
            "{% if add_generation_prompt %}" + cases + "{% else %}<|default|>{% endif %}{% endif %}")


def vocabulary_of(scripts, specials):
    """Texts and kinds, and the successor of each token (the end token, where nothing else is said)."""
    texts, kinds = byte_spellings(), [1] * 256
    spelling = byte_spellings()

    def add(text, kind):
        texts.append(text)
        kinds.append(kind)
        return len(texts) - 1

    end = add(END, 3)
    add("~~", 1)
    successors = {}
    for name, pieces in scripts.items():
        last = add(f"<|{name}|>", 3)
        for piece in pieces:
            # Each occurrence is an entry of its own, also where texts are equal, since it has its own successor.
            raw = piece if isinstance(piece, bytes) else piece.encode()
            token = add(piece, specials[piece]) if piece in specials else add("".join(spelling[b] for b in raw), 1)
            successors[last] = token
            last = token
        successors[last] = end
    while len(texts) % BLOCK:
        add(f"<|unused {len(texts)}|>", 3)
    return texts, kinds, [successors.get(i, end) for i in range(len(texts))], end


def write(path, scripts, specials=None, context=512, template=None):
    """specials: pieces that are special tokens, and their kind (3: control, 4: user-defined)."""
    import gguf     # pylint: disable=import-outside-toplevel
    texts, kinds, successors, end = vocabulary_of(scripts, specials or {})
    n = len(texts)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("scripted")
    writer.add_block_count(1)
    writer.add_context_length(context)
    writer.add_embedding_length(n)
    writer.add_feed_forward_length(BLOCK)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_key_length(BLOCK)
    writer.add_value_length(BLOCK)
    writer.add_rope_dimension_count(BLOCK)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(n)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(texts)
    writer.add_token_types(kinds)
    writer.add_token_merges(["~ ~"])          # a list there must be; this one matters to no script
    writer.add_eos_token_id(end)
    writer.add_add_bos_token(False)
    writer.add_chat_template(template or template_of(scripts))
    eye = np.eye(n, dtype=np.float32)
    output = np.zeros((n, n), dtype=np.float32)
    for token, successor in enumerate(successors):
        output[successor, token] = 1
    writer.add_tensor("token_embd.weight", eye)
    writer.add_tensor("output_norm.weight", np.ones(n, dtype=np.float32))
    writer.add_tensor("output.weight", output)
    for name, shape in (("attn_q", (BLOCK, n)), ("attn_k", (BLOCK, n)), ("attn_v", (BLOCK, n)), ("attn_output", (n, BLOCK)),
                        ("ffn_gate", (BLOCK, n)), ("ffn_up", (BLOCK, n)), ("ffn_down", (n, BLOCK))):
        writer.add_tensor(f"blk.0.{name}.weight", np.zeros(shape, dtype=np.float32))
    for name in ("attn_norm", "ffn_norm"):
        writer.add_tensor(f"blk.0.{name}.weight", np.ones(n, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
