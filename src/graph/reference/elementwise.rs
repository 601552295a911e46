//! Scalar reference of the operations in `engine::vulkan::ops` of this name, in f64.

/// The error function, to 1e-8: its power series, and 1 where the rest is smaller.
pub fn erf(x: f64) -> f64 {
    if x.abs() > 4.0 {
        return x.signum();
    }
    let mut term = x;
    let mut sum = x;
    for n in 1..120 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// A function of one number by ggml's name; `p` holds the float parameters. `None` for an unknown name.
pub fn unary(name: &str, x: f64, p: [f64; 4]) -> Option<f64> {
    Some(match name {
        "ABS" => x.abs(),
        "SGN" if x == 0.0 => 0.0,
        "SGN" => x.signum(),
        "NEG" => -x,
        "STEP" => f64::from(u8::from(x > 0.0)),
        "TANH" => x.tanh(),
        "ELU" if x > 0.0 => x,
        "ELU" | "EXPM1" => x.exp_m1(),
        "RELU" => x.max(0.0),
        "SIGMOID" => sigmoid(x),
        "GELU" => 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh()),
        "GELU_QUICK" => x * sigmoid(1.702 * x),
        "GELU_ERF" => 0.5 * x * (1.0 + erf(x / 2f64.sqrt())),
        "SILU" => x * sigmoid(x),
        "HARDSWISH" => x * ((x + 3.0) / 6.0).clamp(0.0, 1.0),
        "HARDSIGMOID" => ((x + 3.0) / 6.0).clamp(0.0, 1.0),
        "EXP" => x.exp(),
        "SOFTPLUS" => x.exp().ln_1p(),
        "XIELU" if x > 0.0 => p[1] * x * x + p[2] * x,
        "XIELU" => (x.min(p[3]).exp_m1() - x) * p[0] + p[2] * x,
        "FLOOR" => x.floor(),
        "CEIL" => x.ceil(),
        "ROUND" => x.round(),
        "TRUNC" => x.trunc(),
        "SQR" => x * x,
        "SQRT" => x.sqrt(),
        "SIN" => x.sin(),
        "COS" => x.cos(),
        "LOG" => x.ln(),
        "SCALE" => x * p[0] + p[1],
        "CLAMP" => x.min(p[1]).max(p[0]),
        "LEAKY_RELU" => x.max(0.0) + p[0] * x.min(0.0),
        _ => return None,
    })
}

/// A function of two numbers by ggml's name: an operation or the function of a `GLU` node. `None` for an unknown name.
pub fn pair(name: &str, x: f64, y: f64, alpha: f64, limit: f64) -> Option<f64> {
    Some(match name {
        "ADD" => x + y,
        "SUB" => x - y,
        "MUL" => x * y,
        "DIV" => x / y,
        "REGLU" => x.max(0.0) * y,
        "GEGLU" => unary("GELU", x, [0.0; 4])? * y,
        "SWIGLU" => x * sigmoid(x) * y,
        "SWIGLU_OAI" => x.min(limit) * sigmoid(alpha * x.min(limit)) * (y.clamp(-limit, limit) + 1.0),
        "GEGLU_ERF" => unary("GELU_ERF", x, [0.0; 4])? * y,
        "GEGLU_QUICK" => unary("GELU_QUICK", x, [0.0; 4])? * y,
        "SWIGLU_CLAMP" => x.min(limit) * sigmoid(x.min(limit)) * y.clamp(-limit, limit),
        _ => return None,
    })
}
