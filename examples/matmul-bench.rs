//! Checks products of many columns on the GPU against sums of f64, then prints how fast they are.
//!
//! Without arguments: the first usable GPU, else a software device with smaller shapes. Ends with 1 when a product is wrong.

use ggml_tri::config::Gpu as Wish;
use ggml_tri::engine::vulkan::Gpu;
use ggml_tri::engine::vulkan::memory::Memory;
use ggml_tri::engine::vulkan::survey::{choose, survey};
use ggml_tri::graph::reference::quant::value;
use ggml_tri::graph::{Node, Tensor, Type};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Repeatable numbers in -1 .. 1.
fn noise(seed: u64, n: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

/// Blocks of random weights whose scales lie between 2^-7 and 2^-6.
fn blocks(ty: Type, count: usize, seed: u64) -> Vec<u8> {
    let size = ty.bytes() as usize;
    let mut bytes: Vec<u8> = noise(seed, size * count).iter().map(|x| (x * 128.0) as i8 as u8).collect();
    let halves: &[usize] = match ty {
        Type::Q4_1 | Type::Q5_1 | Type::Q4_K | Type::Q5_K => &[0, 2],
        Type::Q2_K => &[80, 82],
        Type::Q3_K => &[108],
        Type::Q6_K => &[208],
        Type::MXFP4 => &[],
        _ => &[0],
    };
    for block in bytes.chunks_exact_mut(size) {
        for at in halves {
            block[at + 1] = 0x20 | block[at + 1] & 0x83;
        }
        if ty == Type::MXFP4 {
            block[0] = 120 + block[0] % 2;
        }
    }
    bytes
}

/// A product with its memory.
struct Case<'a> {
    gpu: &'a Gpu,
    node: Node,
    weights: Vec<u8>,
    inputs: Vec<f32>,
    /// Of a MUL_MAT_ID: the expert of each column of the result.
    ids: Option<Vec<i32>>,
    memory: Vec<Arc<Memory>>,
}

impl<'a> Case<'a> {
    /// Weights of `m` rows of `k`, `n` columns; `batches` of columns for each two of which there is one matrix of weights.
    fn new(gpu: &'a Gpu, ty: Type, [m, n, k, batches]: [i64; 4]) -> Outcome<Case<'a>> {
        let a = Tensor::new(ty, [k, m, (batches + 1) / 2, 1]);
        Case::of(gpu, a, [k, n, batches, 1], [m, n, batches, 1], None)
    }

    /// A MUL_MAT_ID of `tokens` that use `used` of `experts`, with activations for each use where `apart`.
    fn by_id(
        gpu: &'a Gpu,
        ty: Type,
        [m, k]: [i64; 2],
        [experts, used, tokens]: [i64; 3],
        apart: bool,
    ) -> Outcome<Case<'a>> {
        let a = Tensor::new(ty, [k, m, experts, 1]);
        let columns = if apart { used } else { 1 };
        // Experts at random, each at most once for a token, and some more often than others.
        let order = noise(7, (experts * tokens) as usize);
        let ids = order.chunks(experts as usize).flat_map(|chances| {
            let mut by: Vec<i32> = (0..experts as i32).collect();
            let key = |e: i32| (1.0 + chances[e as usize]) * (1.0 + e as f32 / experts as f32);
            by.sort_by(|x, y| key(*x).total_cmp(&key(*y)));
            by.truncate(used as usize);
            by
        });
        Case::of(gpu, a, [k, columns, tokens, 1], [m, used, tokens, 1], Some(ids.collect()))
    }

    fn of(gpu: &'a Gpu, mut a: Tensor, b: [i64; 4], dst: [i64; 4], ids: Option<Vec<i32>>) -> Outcome<Case<'a>> {
        let ty = a.ty;
        let mut b = Tensor::new(Type::F32, b);
        let mut dst = Tensor::new(Type::F32, dst);
        let room = |t: &mut Tensor| -> Outcome<Arc<Memory>> {
            let memory = gpu.allocate(t.span())?;
            (t.data, t.id, t.root) = (memory.host() as u64, memory.host() as u64, memory.host() as u64);
            Ok(memory)
        };
        let mut memory = vec![room(&mut a)?, room(&mut b)?, room(&mut dst)?];
        // Large weights repeat a piece: random bytes are slow to make.
        let count = (a.span() / ty.bytes()) as usize;
        let piece = blocks(ty, count.min(9973), 1);
        let mut weights = piece.clone();
        weights.resize(count * ty.bytes() as usize, 0);
        for chunk in weights.chunks_mut(piece.len()) {
            chunk.copy_from_slice(&piece[..chunk.len()]);
        }
        let inputs = noise(2, b.elements() as usize);
        memory[0].write(0, &weights);
        memory[1].write(0, &inputs.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>());
        let mut node = Node::new("MUL_MAT", dst, &[a, b]);
        if let Some(ids) = &ids {
            let mut t = Tensor::new(Type::I32, [dst.ne[1], dst.ne[2], 1, 1]);
            let table = room(&mut t)?;
            table.write(0, &ids.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>());
            memory.push(table);
            node = Node::new("MUL_MAT_ID", dst, &[a, b, t]);
        }
        Ok(Case { gpu, node, weights, inputs, ids, memory })
    }

    /// The normalised mean square error of the GPU's result.
    fn error(&self) -> Outcome<f64> {
        self.gpu.record(&[self.node])?.run()?;
        let dst = self.node.dst;
        let mut bytes = vec![0; dst.span() as usize];
        self.gpu.read(dst.data, &mut bytes)?;
        let (a, b) = self.node.src[0].zip(self.node.src[1]).ok_or("a product has weights and activations")?;
        let (k, m, n) = (a.ne[0] as usize, a.ne[1] as usize, dst.ne[1] as usize);
        let row = a.nb[1] as usize;
        let rows: Vec<Vec<f64>> = (0..m * a.ne[2] as usize)
            .map(|r| (0..k).map(|i| f64::from(value(a.ty, &self.weights[r * row..(r + 1) * row], i))).collect())
            .collect();
        let (mut wrong, mut size) = (0.0, 0.0);
        for (at, got) in bytes.chunks_exact(4).enumerate() {
            let (column, i) = (at / m, at % m);
            let share = (dst.ne[2] as usize / a.ne[2] as usize).max(1);
            let (matrix, from) = match &self.ids {
                Some(ids) => (ids[column] as usize, column / (dst.ne[1] / b.ne[1]) as usize),
                None => (column / n / share, column),
            };
            let weights = &rows[matrix * m + i];
            let inputs = &self.inputs[from * k..][..k];
            let want: f64 = weights.iter().zip(inputs).map(|(w, x)| w * f64::from(*x)).sum();
            let got = f64::from(f32::from_le_bytes([got[0], got[1], got[2], got[3]]));
            wrong += (want - got) * (want - got);
            size += want * want;
        }
        Ok(wrong / size)
    }

    /// The least time of one product, of some runs in which it is repeated.
    fn time(&self, repeats: usize) -> Outcome<Duration> {
        let recording = self.gpu.record(&vec![self.node; repeats])?;
        let mut least = recording.run()?;
        for _ in 0..2 {
            least = least.min(recording.run()?);
        }
        Ok(least / repeats as u32)
    }
}

impl Drop for Case<'_> {
    fn drop(&mut self) {
        for memory in &self.memory {
            self.gpu.buffers.remove(memory.host() as u64);
        }
    }
}

const TYPES: &[Type] = &[
    Type::F16,
    Type::Q4_0,
    Type::Q4_1,
    Type::Q5_0,
    Type::Q5_1,
    Type::Q8_0,
    Type::Q2_K,
    Type::Q3_K,
    Type::Q4_K,
    Type::Q5_K,
    Type::Q6_K,
    Type::IQ4_NL,
    Type::IQ4_XS,
    Type::MXFP4,
];

/// Prints the errors; whether all are small enough.
fn check(gpu: &Gpu) -> Outcome<bool> {
    let caps = &gpu.device.caps;
    // Both factors rounded to 11 bits, weights with a minimum twice; or activations rounded to 8 bits.
    let limit = if caps.matrix_f16.is_some() { 2e-6 } else { 3e-5 };
    let mut right = true;
    for ty in TYPES {
        let mut line = format!("{:7}", ty.name());
        let k = ty.block().max(32) as i64;
        let shapes: &[[i64; 4]] = if caps.software {
            &[[37, 35, 3 * k, 1], [70, 17, k, 4]]
        } else {
            // Whole tiles; edges in every direction at each width of tile; sums shared out; batches.
            &[
                [128, 128, 4 * k, 1],
                [200, 140, 3 * k, 1],
                [70, 17, 3 * k, 1],
                [64, 32, k, 1],
                [130, 50, 3 * k, 1],
                [130, 27, 16 * 256, 1],
                [64, 512, 16 * 256, 1],
                [96, 40, k, 4],
            ]
        };
        for shape in shapes {
            let e = Case::new(gpu, *ty, *shape)?.error()?;
            line += &format!(" {e:.1e}");
            if e.is_nan() || e > limit {
                line += "(!)";
                right = false;
            }
        }
        println!("{line}");
    }
    for ty in TYPES {
        let mut line = format!("{:7} by id", ty.name());
        let k = 3 * ty.block().max(32) as i64;
        // Tiles of each width.
        for (tokens, apart) in [(32, false), (150, true), (400, false)] {
            let e = Case::by_id(gpu, *ty, [70, k], [8, 2, tokens], apart)?.error()?;
            line += &format!(" {e:.1e}");
            if e.is_nan() || e > limit {
                line += "(!)";
                right = false;
            }
        }
        println!("{line}");
    }
    for k in [67, 40, 136] {
        let e = Case::new(gpu, Type::F16, [77, 33, k, 2])?.error()?;
        println!("f16 k={k} {e:.1e}");
        right &= e <= limit;
    }
    Ok(right)
}

/// Prints TFLOPS by shape and width. The activations are packed once for all repeats.
fn measure(gpu: &Gpu) -> Outcome<()> {
    let software = gpu.device.caps.software;
    let types: &[Type] =
        if software { &[Type::Q4_0, Type::Q8_0, Type::Q4_K, Type::Q6_K, Type::F16] } else { &[Type::Q4_K, Type::Q6_K] };
    let shapes: &[[i64; 2]] = if software {
        &[[576, 576], [1536, 576], [576, 1536]]
    } else {
        &[[6144, 4096], [4096, 4096], [28672, 4096], [4096, 14336]]
    };
    let widths: &[i64] = if software { &[32, 64] } else { &[17, 32, 64, 128, 512] };
    for ty in types {
        for [m, k] in shapes {
            let k = k - k % ty.block() as i64;
            let mut line = format!("{} {m}x{k}:", ty.name());
            for n in widths {
                let case = Case::new(gpu, *ty, [*m, *n, k, 1])?;
                let work = 2.0 * (m * n * k) as f64;
                let repeats = if software { 2 } else { (3e12 / work).clamp(8.0, 200.0) as usize };
                let time = case.time(repeats)?.as_secs_f64();
                line += &format!("  n={n} {:.1} us {:.3} TFLOPS", time * 1e6, work / time * 1e-12);
            }
            println!("{line}");
        }
        // Rows and sums of one expert's gate and of its last product, as models of 30 billion parameters have them.
        for (m, k, apart) in [(768, 2048, false), (2048, 768, true)] {
            let mut line = format!("{} {m}x{k}, 8 of 128 experts:", ty.name());
            for tokens in if software { [32, 64, 128, 256] } else { [32, 64, 128, 512] } {
                let case = Case::by_id(gpu, *ty, [m, k], [128, 8, tokens], apart)?;
                let work = 2.0 * (m * 8 * tokens * k) as f64;
                let time = case.time(if software { 1 } else { 50 })?.as_secs_f64();
                line += &format!("  tokens={tokens} {:.1} us {:.3} TFLOPS", time * 1e6, work / time * 1e-12);
            }
            println!("{line}");
        }
    }
    Ok(())
}

fn main() -> Outcome<ExitCode> {
    let found = survey()?;
    let device = choose(&found, Wish::Auto).or_else(|_| choose(&found, Wish::Lavapipe))?;
    let gpu = Gpu::open(device, None, Default::default())?;
    println!("{}, {}", gpu.device.caps.name, gpu.device.caps.driver);
    println!("{:?}", gpu.device.caps);
    let right = check(&gpu)?;
    println!("{}", if right { "all products are right" } else { "WRONG products" });
    measure(&gpu)?;
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
