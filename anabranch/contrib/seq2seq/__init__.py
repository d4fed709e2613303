"""``tf.contrib.seq2seq``: decoders, attention, beam search, losses of sequences."""

from anabranch.contrib.seq2seq import (
    attention,
    attention_wrapper,
    basic_decoder,
    beam_search_decoder,
    decoder,
    helper,
    loss,
)
from anabranch.core.contract import api

__all__ = [
    "attention",
    "attention_wrapper",
    "basic_decoder",
    "beam_search_decoder",
    "decoder",
    "helper",
    "loss",
]
# Programs derive from it to write a mechanism of their own.
_BaseAttentionMechanism = attention.BaseAttentionMechanism
__getattr__, __dir__ = api.module_attributes("contrib.seq2seq")
