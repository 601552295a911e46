//! Attention of queries over keys and values, row by row, in f64.

/// The sizes of one attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Elements of a head of Q and K.
    pub dk: usize,
    /// Elements of a head of V and of the result.
    pub dv: usize,
    /// Heads of Q.
    pub heads: usize,
    /// Heads of K and V; each serves the same number of heads of Q.
    pub kv_heads: usize,
    /// Queries.
    pub n: usize,
    /// Keys.
    pub n_kv: usize,
    /// Independent sequences.
    pub batch: usize,
}

/// What changes the scores before their softmax.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scores<'a> {
    /// The dot product is multiplied with this.
    pub scale: f32,
    /// Largest exponent of ALiBi's slopes; 0 means none.
    pub max_bias: f32,
    /// Scores are squeezed into +- this by tanh; 0 means not.
    pub softcap: f32,
    /// `[batch][n][n_kv]`, added after multiplication with the head's slope.
    pub mask: Option<&'a [f32]>,
    /// A score per head that takes its share of the softmax and has no value.
    pub sinks: Option<&'a [f32]>,
}

/// The slope of ALiBi of a head.
fn slope(head: usize, heads: usize, max_bias: f32) -> f64 {
    if max_bias <= 0.0 {
        return 1.0;
    }
    let power = 1 << heads.ilog2();
    let base = -f64::from(max_bias) / power as f64;
    let exponent = if head < power { (head + 1) as f64 } else { (2 * (head - power) + 1) as f64 / 2.0 };
    (base * exponent).exp2()
}

/// `q` is `[batch][heads][n][dk]`, `k` and `v` `[batch][kv_heads][n_kv][..]`; the result is `[batch][n][heads][dv]`.
pub fn attention(s: &Sizes, q: &[f32], k: &[f32], v: &[f32], how: &Scores) -> Vec<f32> {
    let mut out = Vec::with_capacity(s.batch * s.n * s.heads * s.dv);
    for b in 0..s.batch {
        for i in 0..s.n {
            for h in 0..s.heads {
                let kv = (b * s.kv_heads + h * s.kv_heads / s.heads) * s.n_kv;
                let query = &q[((b * s.heads + h) * s.n + i) * s.dk..][..s.dk];
                let score = |j: usize| {
                    let key = &k[(kv + j) * s.dk..][..s.dk];
                    let dot: f64 = query.iter().zip(key).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                    let (x, cap) = (dot * f64::from(how.scale), f64::from(how.softcap));
                    let x = if cap == 0.0 { x } else { cap * (x / cap).tanh() };
                    let mask = how.mask.map_or(0.0, |m| f64::from(m[(b * s.n + i) * s.n_kv + j]));
                    x + slope(h, s.heads, how.max_bias) * mask
                };
                let scores: Vec<f64> = (0..s.n_kv).map(score).collect();
                let sink = how.sinks.map_or(f64::NEG_INFINITY, |s| f64::from(s[h]));
                let top = scores.iter().copied().fold(sink, f64::max);
                // A row of which all is hidden has the result 0.
                let share = |x: f64| if x == f64::NEG_INFINITY { 0.0 } else { (x - top).exp() };
                let sum: f64 = scores.iter().map(|x| share(*x)).sum::<f64>() + share(sink);
                for d in 0..s.dv {
                    let value = |(j, x): (usize, &f64)| share(*x) * f64::from(v[(kv + j) * s.dv + d]);
                    let total: f64 = scores.iter().enumerate().map(value).sum();
                    out.push(if sum == 0.0 { 0.0 } else { (total / sum) as f32 });
                }
            }
        }
    }
    out
}
