"""Chat templates in the form of five families, and a tokenizer small enough to be made here."""

import tokenizers

from grpo.models import tokenizer as texts

CHATML = """\
{% for message in messages %}{% if loop.first and message['role'] != 'system' %}{{ \
'<|im_start|>system\\nBe brief.<|im_end|>\\n' }}{% endif %}{{ '<|im_start|>' + message['role'] + \
'\\n' + message['content'] + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ \
'<|im_start|>assistant\\n' }}{% endif %}"""

# Tools stand in the system turn, and results of tools are collected in one turn of the user.
QWEN2 = """\
{%- if messages[0]['role'] == 'system' %}{%- set first = messages[0]['content'] %}
{%- else %}{%- set first = 'Be brief.' %}{%- endif %}
{{- '<|im_start|>system\\n' + first }}
{%- if tools %}{{- '\\n<tools>' }}{%- for tool in tools %}{{- '\\n' + tool | tojson }}
{%- endfor %}{{- '\\n</tools>' }}{%- endif %}
{{- '<|im_end|>\\n' }}
{%- for message in messages %}
{%- if message.role == 'tool' %}
{%- if loop.index0 == 0 or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}
{%- endif %}
{{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
{%- elif message.role != 'system' %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""

# As QWEN2, and reasoning of turns before the last question is taken away: it rewrites the past.
QWEN3 = QWEN2.replace("""\
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
""", """\
{%- set content = message.content.split('</think>')[-1].lstrip('\\n') %}
{{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
""")

LLAMA3 = """\
{{- bos_token }}{%- for message in messages %}
{%- set role = 'ipython' if message.role == 'tool' else message.role %}
{{- '<|start_header_id|>' + role + '<|end_header_id|>\\n\\n' + message.content | trim + \
'<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}"""

# No tools, and it insists that user and model take turns.
GEMMA3 = """\
{{ bos_token }}{%- for message in messages %}
{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('Conversation roles must alternate user/assistant') }}{%- endif %}
{%- set role = 'model' if message['role'] == 'assistant' else message['role'] %}
{{- '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<start_of_turn>model\\n' }}{%- endif %}"""

# name -> (template, token that ends a turn, tokens of the family, role of a tool's answer, whether
# the template shows all turns as they were)
FAMILIES = dict(
    smollm2=(CHATML, '<|im_end|>', ('<|im_start|>',), 'user', True),
    qwen2=(QWEN2, '<|im_end|>', ('<|im_start|>',), 'tool', True),
    qwen3=(QWEN3, '<|im_end|>', ('<|im_start|>',), 'tool', False),
    llama3=(LLAMA3, '<|eot_id|>', ('<|begin_of_text|>', '<|start_header_id|>', '<|end_header_id|>'),
            'tool', True),
    gemma3=(GEMMA3, '<end_of_turn>', ('<bos>', '<start_of_turn>'), 'user', True))


def byte_level(special: tuple[str, ...], merges: tuple[tuple[str, str], ...] = ()):
  """tokenizers.Tokenizer: special tokens, all bytes, and a few merges."""
  alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
  words = [*special, *alphabet, *(a + b for a, b in merges)]
  made = tokenizers.Tokenizer(tokenizers.models.BPE(
      vocab={w: i for i, w in enumerate(words)}, merges=list(merges)))
  made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
  made.decoder = tokenizers.decoders.ByteLevel()
  made.add_special_tokens(list(special))
  return made


def tokenizer(family: str) -> texts.Tokenizer:
  """A byte-level tokenizer with the template and the special tokens of a family."""
  template, stop, others, *_ = FAMILIES[family]
  made = byte_level((stop, *others), (('1', '2'), ('o', 'k'), ('Ġ', 'a'), ('i', 'n')))
  special = dict(bos_token=others[0], eos_token=stop)
  return texts.Tokenizer(made, template, special, (made.token_to_id(stop),))
