//! Speed of the matrix products of few columns: the chain of products of an 8-billion-parameter model, recorded once and
//! replayed, per width; then shapes by geometries, and types. `matvec-bench [--layers N] [--seconds N]`.

use ggml_tri::config::Gpu as Wish;
use ggml_tri::engine::vulkan::memory::Memory;
use ggml_tri::engine::vulkan::ops::matvec::{Geometry, Glu, MatvecParts, lower_parts};
use ggml_tri::engine::vulkan::ops::quantize::{FORM, Q8, quantized};
use ggml_tri::engine::vulkan::ops::{Lowering, Reject, lower};
use ggml_tri::engine::vulkan::recording::Recording;
use ggml_tri::engine::vulkan::survey::{choose, survey};
use ggml_tri::engine::vulkan::{Gpu, GpuError};
use ggml_tri::graph::{Node, Tensor, Type};
use std::sync::Arc;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Rows and length of the products of a layer: QKV, O, gate with up, down.
const LAYER: [(i64, i64); 4] = [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)];
const HEAD: (i64, i64) = (128_256, 4096);
const WIDTHS: [i64; 17] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 32];
const TYPES: [Type; 13] = [
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

struct Bench {
    gpu: Gpu,
    held: Vec<Arc<Memory>>,
    /// Weights of each layer in the order of `LAYER`, then of the head.
    weights: Vec<Tensor>,
    /// Results, two by turns, and the int8 columns, which are the same for all products.
    results: [Tensor; 2],
    activations: Tensor,
    begin: Instant,
    seconds: u64,
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let (mut layers, mut seconds) = (32, 50);
    while let Some(arg) = args.next() {
        let value = args.next().and_then(|v| v.parse().ok()).ok_or("a number is missing")?;
        match arg.as_str() {
            "--layers" => layers = value,
            "--seconds" => seconds = value,
            _ => return Err(format!("unknown option {arg}").into()),
        }
    }
    let found = survey()?;
    let found = choose(&found, Wish::Auto).or_else(|_| choose(&found, Wish::Lavapipe))?;
    let bench = Bench::new(Gpu::open(found, None, Default::default())?, layers as usize, seconds)?;
    bench.chain()?;
    bench.gated()?;
    bench.sweep()?;
    bench.types()
}

impl Bench {
    fn new(gpu: Gpu, layers: usize, seconds: u64) -> Result<Bench> {
        println!("{} ({})", gpu.device.caps.name, gpu.device.caps.driver);
        let none = Tensor::new(Type::F32, [1; 4]);
        let begin = Instant::now();
        let (held, weights) = (Vec::new(), Vec::new());
        let mut bench = Bench { gpu, held, weights, results: [none; 2], activations: none, begin, seconds };
        for (ty, (m, k)) in
            std::iter::repeat_n(LAYER.map(|s| (Type::Q4_K, s)), layers).flatten().chain([(Type::Q6_K, HEAD)])
        {
            let w = bench.place(Tensor::new(ty, [k, m, 1, 1]), true)?;
            bench.weights.push(w);
        }
        let widest = *WIDTHS.last().unwrap_or(&1);
        bench.results = [bench.place(Tensor::new(Type::F32, [HEAD.0, widest, 1, 1]), false)?; 2];
        bench.results[1] = bench.place(bench.results[1], false)?;
        bench.activations = bench.place(Tensor::new(Type::F32, [14336, widest, 1, 1]), true)?;
        println!("weights are in place after {:.1} s\n", begin.elapsed().as_secs_f64());
        Ok(bench)
    }

    /// Gives a tensor memory of its own. The bytes are such that as halves or floats they are small ordinary numbers.
    fn place(&mut self, mut t: Tensor, fill: bool) -> Result<Tensor> {
        let memory = self.gpu.allocate(t.span())?;
        if fill {
            let mut state = 0x9e37_79b9_7f4a_7c15_u64;
            let mut pattern = vec![0_u8; (16 << 20).min(t.span() as usize)];
            for eight in pattern.chunks_mut(8) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let word = (state & 0xbfbf_bfbf_bfbf_bfbf | 0x2020_2020_2020_2020).to_le_bytes();
                eight.copy_from_slice(&word[..eight.len()]);
            }
            for at in (0..t.span()).step_by(pattern.len()) {
                let n = (t.span() - at).min(pattern.len() as u64) as usize;
                memory.write(at, &pattern[..n]);
            }
        }
        t.data = memory.host() as u64;
        (t.id, t.root) = (t.data, t.data);
        self.held.push(memory);
        Ok(t)
    }

    /// Whether this part of the time is over.
    fn over(&self, part: f64) -> bool {
        self.begin.elapsed() > Duration::from_secs(self.seconds).mul_f64(part)
    }

    /// Records products one after the other, each waiting for the one before, over activations that are int8 already.
    fn record(
        &self,
        weights: &[Tensor],
        n: i64,
        geometry: Option<Geometry>,
    ) -> std::result::Result<Recording, GpuError> {
        self.gpu.record_with(None, |cx: &mut Lowering| -> std::result::Result<(), Reject> {
            let mut before = None;
            for (i, w) in weights.iter().enumerate() {
                let x = Tensor { ne: [w.ne[0], n, 1, 1], ..self.activations };
                let dst = Tensor { ne: [w.ne[1], n, 1, 1], ..self.results[i % 2] };
                let span = cx.span(&self.activations)?;
                let form = Q8::of(&x, span);
                cx.note_derived(&x, FORM, form.span)?;
                let first = cx.dispatches.len();
                lower_parts(&MatvecParts { geometry, ..MatvecParts::new(*w, x, dst) }, cx)?;
                for d in &mut cx.dispatches[first..] {
                    d.reads.extend(before);
                }
                before = Some(cx.span(&dst)?);
            }
            Ok(())
        })
    }

    /// The shortest of some runs, in milliseconds.
    fn time(&self, recording: &Recording) -> Result<f64> {
        let mut best = f64::INFINITY;
        let begin = Instant::now();
        for i in 0..50 {
            let t = recording.run()?.as_secs_f64() * 1e3;
            best = best.min(t);
            if i >= 2 && begin.elapsed() > Duration::from_millis(40) {
                break;
            }
        }
        Ok(best)
    }

    fn chain(&self) -> Result<()> {
        let bytes: u64 = self.weights.iter().map(Tensor::span).sum();
        println!("chain of {} products, {:.2} GB, default geometry", self.weights.len(), bytes as f64 / 1e9);
        // Clocks rise only under load.
        let load = self.record(&self.weights, 8, None)?;
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(2) {
            load.run()?;
        }
        let mut one = 0.0;
        for n in WIDTHS {
            if self.over(1.0) {
                break;
            }
            let ms = self.time(&self.record(&self.weights, n, None)?)?;
            one = if n == 1 { ms } else { one };
            let rate = bytes as f64 / ms / 1e6;
            println!("n={n:2} {ms:8.3} ms {rate:6.0} GB/s  x{:.2}  {:6.0} columns/s", ms / one, n as f64 / ms * 1e3);
        }
        println!();
        Ok(())
    }

    /// Every type, in the memory of the gate and up matrices.
    fn types(&self) -> Result<()> {
        println!("types: products of about 66 MB and length 4096, GB/s at n = 1, 2, 4, 8");
        for ty in TYPES {
            let of = |w: &Tensor| {
                let t = Tensor::new(ty, [4096, 1, 1, 1]);
                let m = (w.span() / t.nb[1]) as i64 / 64 * 64;
                Tensor { data: w.data, id: w.id, root: w.id, ..Tensor::new(ty, [4096, m, 1, 1]) }
            };
            let weights: Vec<_> = self.weights.iter().filter(|w| w.ne[1] == 28672).map(of).collect();
            let bytes: u64 = weights.iter().map(Tensor::span).sum();
            let mut line = format!("{:7}", ty.name());
            for n in [1, 2, 4, 8] {
                if !self.over(1.0) {
                    let ms = self.time(&self.record(&weights, n, None)?)?;
                    line += &format!(" {:6.0}", bytes as f64 / ms / 1e6);
                }
            }
            println!("{line}");
        }
        println!();
        Ok(())
    }

    /// Gate and up with their function and the int8 form of the result: one dispatch, two, or four.
    fn gated(&self) -> Result<()> {
        println!("gate, up, SWIGLU, int8 of 14336 x 4096: microseconds as 4 dispatches | default | as 2 or 1, by rows");
        for n in [1, 2, 3, 4, 6, 8, 16] {
            let mut line = format!(
                "n={n:2} {:7.2} | {:7.2} |",
                self.gated_time(n, None)?,
                self.gated_time(n, Some((true, None)))?
            );
            for (int8, rows) in [(false, 1), (false, 2), (false, 4), (true, 1), (true, 2), (true, 4)] {
                if !self.over(0.8) {
                    let g = Geometry { subgroups: 4, rows, columns: 4, depth: 1 };
                    let one = if int8 { 1 } else { 2 };
                    line += &format!("  {one}x{rows} {:7.2}", self.gated_time(n, Some((int8, Some(g))))?);
                }
            }
            println!("{line}");
        }
        println!();
        Ok(())
    }

    /// Microseconds of one such piece of a layer; `fused`: whether the int8 form is fused too, and the geometry.
    fn gated_time(&self, n: i64, fused: Option<(bool, Option<Geometry>)>) -> Result<f64> {
        let weights: Vec<_> = self.weights.iter().filter(|w| w.ne[1] == 28672).collect();
        let x = Tensor { ne: [4096, n, 1, 1], ..self.activations };
        let with_rows = |t: &Tensor, m: i64| {
            let shape = Tensor::new(
                t.ty,
                [if t.ty == Type::F32 { m } else { 4096 }, if t.ty == Type::F32 { n } else { m }, 1, 1],
            );
            Tensor { data: t.data, id: t.id, root: t.id, ..shape }
        };
        let recording = self.gpu.record_with(None, |cx: &mut Lowering| -> std::result::Result<(), Reject> {
            let mut before = None;
            for w in &weights {
                let gate = with_rows(w, 14336);
                let up = Tensor { data: gate.data + gate.span(), ..gate };
                let [a, dst] = self.results.map(|t| with_rows(&t, 14336));
                let b = Tensor { data: a.data + a.span(), ..a };
                let form = Q8::of(&x, cx.span(&self.activations)?);
                cx.note_derived(&x, FORM, form.span)?;
                let first = cx.dispatches.len();
                match fused {
                    None => {
                        lower_parts(&MatvecParts::new(gate, x, a), cx)?;
                        lower_parts(&MatvecParts::new(up, x, b), cx)?;
                        lower(&Node { sub: "SWIGLU", ..Node::new("GLU", dst, &[a, b]) }, cx)?;
                    }
                    Some((int8, geometry)) => {
                        let pair = Some((up, Glu::Swiglu));
                        lower_parts(&MatvecParts { pair, int8, geometry, ..MatvecParts::new(gate, x, dst) }, cx)?;
                    }
                }
                for d in &mut cx.dispatches[first..] {
                    d.reads.extend(before);
                }
                before = Some(quantized(&dst, cx)?.span);
            }
            Ok(())
        })?;
        Ok(self.time(&recording)? * 1e3 / weights.len() as f64)
    }

    /// Geometries for each shape of the layer and for the head.
    fn sweep(&self) -> Result<()> {
        for n in [8, 16, 4, 1, 2, 6, 3, 12, 5] {
            println!("n={n}: microseconds of one product; subgroups x rows x columns x depth");
            println!(
                "{:>12} {:>10} {:>10} {:>10} {:>10} {:>10}",
                "", "6144x4096", "4096x4096", "28672x4k", "4kx14336", "head"
            );
            let mut seen = Vec::new();
            for (rows, widest) in [(4, 4), (2, 8), (4, 8), (2, 4), (4, 2), (1, 4)] {
                for subgroups in [2, 4] {
                    // As the lowering divides the columns.
                    let columns = (n as u32).div_ceil((n as u32).div_ceil(widest));
                    if seen.contains(&(subgroups, rows, columns)) {
                        continue;
                    }
                    seen.push((subgroups, rows, columns));
                    let g = Geometry { subgroups, rows, columns, depth: 1 };
                    let mut line = format!("{:>12}", format!("{subgroups}x{rows}x{columns}x1"));
                    for (m, k) in LAYER.into_iter().chain([HEAD]) {
                        let one = |w: &&Tensor| w.ne[..2] == [k, m];
                        let weights: Vec<_> = self.weights.iter().filter(one).copied().collect();
                        let weights = if weights.len() == 1 { vec![weights[0]; 4] } else { weights };
                        if self.over(0.8) {
                            println!();
                            return Ok(());
                        }
                        let ms = match self.record(&weights, n, Some(g)) {
                            Ok(recording) => self.time(&recording)?,
                            Err(_) => f64::NAN, // more workgroups than a grid holds
                        };
                        line += &format!(" {:>10.2}", ms * 1e3 / weights.len() as f64);
                    }
                    println!("{line}");
                }
            }
            println!();
        }
        Ok(())
    }
}
