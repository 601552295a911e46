//! The simulated CPU: threads that wait for each other after each node, chunks of 16 rows, four columns at a time.

use super::ask::{Ask, Shape};
use super::processor::{Processor, both, rounds, unpacking};

/// Rows of a chunk.
const CHUNK: f64 = 16.0;

/// Seconds of a node, the barrier after it included.
pub fn seconds(p: &Processor, ask: &Ask) -> f64 {
    let threads = p.units;
    let near = (ask.fresh + ask.made).min(0.5 * p.cache) / (8.0 * p.bandwidth);
    let far = p.spilled(ask) / p.bandwidth;
    let work = match ask.shape {
        Shape::Product | Shape::Experts => {
            // Four columns share what is unpacked; what is left over is done one by one.
            let packed = 4.0 * (ask.n / 4.0).floor();
            let each = ask.ops / ask.n * unpacking(ask.ty, p.kind);
            let compute = each * (packed / p.many + (ask.n - packed) / p.few);
            let jobs = (ask.m / CHUNK).ceil() * ask.depth.max(1.0);
            // A few rows per thread do not make a stream that the memory can see coming.
            let warm_up = 1.0 + 0.15 * (threads * CHUNK / ask.m).min(1.0);
            let stream = ask.stream / p.bandwidth * warm_up;
            // Activations are converted to 8 bits first, by all threads.
            let conversion = ask.fresh / 4.0 / (threads * 2e9);
            both(compute, stream) / rounds(jobs, threads, 0.3) + conversion
        }
        Shape::Attention => {
            let compute = ask.ops / (0.4 * p.few);
            both(compute, ask.stream / p.bandwidth) / rounds(ask.m * ask.n, threads, 0.0)
        }
        // Threads share rows: a single row is one thread's.
        Shape::Rows => ask.ops / (2e9 * threads) / rounds(ask.n, threads, 0.0),
    };
    work * p.cliffs[(ask.n as usize).min(16)] + near + far + p.node
}
