//! End-to-end tests: an unmodified llama.cpp with the plugin in it, compared with the same llama.cpp without.
//!
//! They need a built host, the plugin and models; `scripts/test` builds or fetches them and says where they lie in the
//! `E2E_*` variables. A test whose files are missing says so in a line that starts with `SKIPPED:`.

mod chost;
mod faults;
mod gpu;
mod gpu_faults;
mod gpu_memory;
mod host;
mod http;
mod load;
mod placement;
mod planner;
mod prompts;
mod server;
mod stop;
mod text;
mod tools;
