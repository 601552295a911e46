"""Which cases of test-backend-ops TRI0-GPU must support: what llama.cpp's graphs of the named model families consist of.

The families are llama, qwen2, qwen3, gemma2, gemma3, phi2, phi3, mistral3, smollm3, qwen3moe, gpt-oss, bert, nomic-bert,
modern-bert and gemma-embedding, with and without flash attention, with f16, q8_0 and q4_0 caches. A node that the
engine refuses is computed by another backend with copies both ways, so a refusal here costs a model its speed.
"""

import re

WEIGHTS = "f32|f16|bf16|q4_0|q4_1|q5_0|q5_1|q8_0|q2_K|q3_K|q4_K|q5_K|q6_K|iq4_nl|iq4_xs|mxfp4"
CACHES = "f16|q8_0|q4_0"
HEADS = "64|80|96|128|256"  # lengths of a head in these families
# Operator: patterns that must all be found in the parameters of a case.
PATTERNS = {
    "GET_ROWS": [rf"^type=({WEIGHTS}),", r",v=0,.*offset_cols=0"],
    "SCALE": [r"^type=f32,"],
    "RMS_NORM": [r"^type=f32,"],
    "NORM": [r"^type=f32,", r"noncontig_rows=0"],
    **dict.fromkeys(["ADD", "MUL", "DIV"], [r"^type=f32,", r",perm1=0,src_overlap=0"]),
    "ADD_ID": [r"^type_a=f32,"],
    # A whole number of blocks of 32 in a row; permutations only where an f16 or quantised cache is the first source.
    "MUL_MAT": [
        rf"^type_a=({WEIGHTS}),type_b=f32,",
        r"per=\[0,1,2,3\]|^type_a=(f16|q8_0|q4_0),.*per=\[0,2,1,3\]",
        r",k_v=0,.*,src_overlap=0,m_v=0",
    ],
    "MUL_MAT_HADAMARD": [r"^type_a=f32,type_b=f32,m=(64|128|256|512),"],
    "MUL_MAT_ID": [rf"^type_a=({WEIGHTS}),type_b=f32,", r",m_v=0"],
    "ROPE": [r"^type=f32,", r",mode=[02],", r",n_offs=0"],
    "SET_ROWS": [rf"^type_src=f32,type_dst=(f32|{CACHES}),type_idx=i64,"],
    "FLASH_ATTN_EXT": [
        rf"^hsk=({HEADS}),hsv=\1,",
        rf"type_K=({CACHES}),type_V=\1,permute=\[0,(1,2|2,1),3\]",
        r"v_is_view_of_k=0",
    ],
    "SOFT_MAX": [r"^type=f32,", r",mask=0,|,m_prec=f32,"],
    "CONT": [r"^type=f32,"],
    "CPY": [r"^type_src=f32,type_dst=f16,"],
    "DUP": [r"^type=f32,"],
    **dict.fromkeys(["SWIGLU", "GEGLU", "SWIGLU_OAI", "SWIGLU_CLAMP"], [r"^type=f32,"]),
    **dict.fromkeys(["GELU", "TANH", "SIGMOID", "SOFTPLUS", "SILU", "RELU", "SQR", "SQRT", "CLAMP"], [r"^type=f32,"]),
    "ARGSORT": [r"^type=f32,ne=\[\d{1,3},.*order=1"],  # experts: fewer than 1000, the largest first
    "SUM_ROWS": [r"^type=f32,"],
    "REPEAT": [r"^type=f32,"],
    "CONCAT": [r"^type=f32,", r",v=0"],
    "PAD": [r"^type=f32,", r"circular=0"],
}


def must(operator, parameters):
    """Whether TRI0-GPU must support a case."""
    patterns = PATTERNS.get(operator)
    if patterns is None or not all(re.search(pattern, parameters) for pattern in patterns):
        return False
    row = re.search(r",k=(\d+)", parameters)
    return operator != "MUL_MAT" or int(row[1]) % 32 == 0
