//! `tri plan`: who would compute what of a model on a chip, how long that would take, and why.

mod accepts;
mod file;
mod machine;
mod report;
mod settle;
mod sites;
mod svg;
mod text;
mod timeline;
mod units;
mod why;

use std::path::Path;

use ggml_tri::chip::model::Chip;
use ggml_tri::config::Config;
use ggml_tri::graph::Graph;
use ggml_tri::plan::Options;
use ggml_tri::plan::costs::Costs;
use ggml_tri::plan::work::Kind;

use crate::args;
use crate::stop::Stop;
use report::{ChipLine, ModelLine, Report};
use sites::Site;
use svg::{Bar, Lane};
use timeline::{Piece, Timeline};
use units::time;

/// Plans what the command line says; the answer is what is to be printed, and the report as data.
pub fn plan(options: &args::Plan) -> Result<Answer, Stop> {
    if options.chip.as_deref() == Some("list") {
        return Ok(Answer::Names(machine::names()));
    }
    let Some(path) = &options.model else {
        return Err(Stop::usage("'tri plan' needs a model's file, for example 'tri plan model.gguf'."));
    };
    let config = Config::get().map_err(|e| Stop::usage(e.to_string()))?;
    let chosen = match &options.chip {
        Some(name) => machine::named(name)?,
        None => machine::this(Path::new("/"), config.gpu),
    };
    let chosen = chosen.without(config.gpu, config.npu);
    let file = file::read(path)?;
    let (chip, model) = (&chosen.chip, &file.described.model);
    let context = options.context.max(options.width);
    let graph = model.graph(options.width, context);
    let caps = accepts::caps(chip);
    let accepts = |engine, node: &_| accepts::accepts(&caps, engine, node);
    let objective = options.objective.into();
    let settled = settle::settle(chip, Options { objective, ..Options::default() }, &graph, &accepts);
    let costs = Costs::new(chip);
    let timeline = Timeline::of(&costs, &graph, &settled.plan.waves);
    let sites = sites::sites(model, &graph);
    let why = why::why(&why::Question {
        chip,
        graph: &graph,
        sites: &sites,
        assignment: &settled.assignment,
        timeline: &timeline,
        accepts: &accepts,
        objective,
    });
    let report = Report {
        predicted: true,
        model: ModelLine {
            file: path.display().to_string(),
            name: model.name.clone(),
            architecture: file.architecture,
            layers: model.layers.len(),
            elements: file.elements,
            bytes: file.bytes,
            notes: file.described.notes,
        },
        chip: ChipLine { name: chip.name.clone(), origin: chosen.origin, sources: chosen.sources, notes: chosen.notes },
        width: options.width,
        context,
        objective: options.objective.name(),
        seconds: timeline.seconds,
        joules: report::joules(chip, &timeline),
        rest: settled.rest,
        tokens_per_second: options.width as f64 / (timeline.seconds + settled.rest),
        passes: settled.passes,
        first_seconds: Timeline::of(&costs, &graph, &settled.first.waves).seconds,
        engines: report::engines(chip, options.width, &timeline),
        sites: report::fold(&graph, &sites, &timeline),
        why,
        notices: settled.notices,
    };
    if let Some(file) = &options.svg {
        let picture = draw(&report, chip, &graph, &sites, &timeline);
        std::fs::write(file, picture)
            .map_err(|e| Stop::failed(format!("'{}' cannot be written ({e}).", file.display())))?;
    }
    Ok(Answer::Report(Box::new(report)))
}

/// What there is to print; as JSON it is the names or the report alone.
#[derive(serde::Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// The names of the catalogue.
    Names(Vec<&'static str>),
    /// A plan.
    Report(Box<Report>),
}

impl Answer {
    /// The answer for a terminal.
    pub fn text(&self) -> String {
        match self {
            Answer::Names(names) => names.join("\n"),
            Answer::Report(report) => text::text(report),
        }
    }
}

/// The timeline as a picture.
fn draw(report: &Report, chip: &Chip, graph: &Graph, sites: &[Option<Site>], timeline: &Timeline) -> String {
    let bar = |piece: &Piece| {
        let site = sites.get(piece.node).copied().flatten();
        let layer = site.and_then(|s| s.layer).map_or(String::new(), |layer| format!(", layer {layer}"));
        let rows = piece.rows.map_or(String::new(), |r| format!(", rows {} to {}", r.first, r.first + r.count));
        let name = site.map_or(graph.nodes[piece.node].op, |s| s.name);
        let kind = match piece.work.kind {
            Kind::Product | Kind::Experts if piece.rows.is_some() => 1,
            Kind::Product | Kind::Experts => 0,
            Kind::Attention => 2,
            Kind::Other => 3,
        };
        let title = format!("{name}{layer}{rows}: {} at {} (predicted)", time(piece.seconds), time(piece.begin));
        Bar { begin: piece.begin, seconds: piece.seconds, title, kind }
    };
    let lane = |p: &ggml_tri::chip::model::Processor| Lane {
        name: format!("{} {}", p.kind.name(), p.name),
        bars: timeline.pieces.iter().filter(|piece| piece.engine == p.kind).map(bar).collect(),
    };
    let lanes: Vec<_> = chip.processors.iter().map(lane).collect();
    let heading = format!("{} on {}", report.model.name, chip.name);
    let tokens = if report.width == 1 { "one token" } else { "one pass" };
    let note = format!("{tokens}, predicted by the planner, not measured: {}", time(timeline.seconds));
    svg::draw(&heading, &note, timeline.seconds, &lanes)
}
