//! The timeline of one pass as a picture: a lane for each engine, a bar for each piece of work, its numbers under the
//! pointer. Written by hand: it is rectangles and text, and a library for it would be larger than this file.

use std::fmt::Write as _;

use super::units::time;

/// One piece of work.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// Seconds from the begin of the pass.
    pub begin: f64,
    /// How many seconds it takes.
    pub seconds: f64,
    /// What stands under the pointer.
    pub title: String,
    /// Its place in [`KINDS`].
    pub kind: usize,
}

/// One engine.
#[derive(Debug, Clone, PartialEq)]
pub struct Lane {
    /// What stands before it.
    pub name: String,
    /// Its work, in order.
    pub bars: Vec<Bar>,
}

/// Name and colour of each kind of bar.
pub const KINDS: &[(&str, &str)] =
    &[("products", "#3b6ea5"), ("rows of a product", "#2f9e77"), ("attention", "#c9772b"), ("the rest", "#8a8f98")];

const LEFT: f64 = 200.0;
const WIDTH: f64 = 1200.0;
const TOP: f64 = 64.0;
const LANE: f64 = 44.0;

/// Draws lanes that span `seconds`; every text may hold any character.
pub fn draw(heading: &str, note: &str, seconds: f64, lanes: &[Lane]) -> String {
    // Nothing to draw has a length all the same, so that nothing is divided by zero.
    let scale = WIDTH / if seconds > 0.0 { seconds } else { 1.0 };
    let bottom = TOP + LANE * lanes.len() as f64;
    let (width, height) = (LEFT + WIDTH + 24.0, bottom + 56.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"12\" y=\"22\" font-size=\"16\">{}</text>\n<text x=\"12\" y=\"44\" fill=\"#555\">{}</text>\n",
        escape(heading),
        escape(note)
    );
    // Writing to a String cannot fail, here and below.
    for tick in ticks(seconds) {
        let x = LEFT + tick * scale;
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.2}\" x2=\"{x:.2}\" y1=\"{TOP}\" y2=\"{bottom}\" stroke=\"#ddd\"/>\
             <text x=\"{x:.2}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555\">{}</text>",
            bottom + 18.0,
            time(tick)
        );
    }
    for (i, lane) in lanes.iter().enumerate() {
        let y = TOP + LANE * i as f64;
        let _ = writeln!(svg, "<text x=\"12\" y=\"{}\">{}</text>", y + 26.0, escape(&lane.name));
        for bar in &lane.bars {
            let (x, width) = (LEFT + bar.begin * scale, bar.seconds * scale);
            let colour = KINDS.get(bar.kind).map_or("#000", |kind| kind.1);
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.2}\" y=\"{}\" width=\"{:.2}\" height=\"{}\" fill=\"{colour}\" stroke=\"white\" \
                 stroke-width=\"0.2\"><title>{}</title></rect>",
                y + 6.0,
                // Thinner ones vanish on the screen.
                width.max(0.1),
                LANE - 12.0,
                escape(&bar.title)
            );
        }
    }
    for (i, (name, colour)) in KINDS.iter().enumerate() {
        let x = LEFT + 180.0 * i as f64;
        let y = bottom + 32.0;
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\" fill=\"{colour}\"/><text x=\"{}\" y=\"{}\">{name}</text>",
            x + 18.0,
            y + 11.0
        );
    }
    svg + "</svg>\n"
}

/// Round places on an axis of this length, at most eleven.
fn ticks(seconds: f64) -> Vec<f64> {
    if seconds <= 0.0 || !seconds.is_finite() {
        return vec![0.0];
    }
    let power = 10_f64.powf((seconds / 10.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|step| seconds / step <= 10.0);
    let step = step.unwrap_or(seconds);
    (0..=10).map(|i| f64::from(i) * step).filter(|tick| *tick <= seconds).collect()
}

/// A text that is data, not XML; characters that XML cannot hold become spaces.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            '\u{fffe}' | '\u{ffff}' => escaped.push(' '),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_become_markup() {
        let bar = Bar { begin: 0.0, seconds: 1.0, title: "</title><script>\u{1}".to_owned(), kind: 0 };
        let svg = draw("a & b", "<i>", 1.0, &[Lane { name: "\"gpu\"".to_owned(), bars: vec![bar] }]);
        for text in ["a &amp; b", "&lt;i&gt;", "&quot;gpu&quot;", "<title>&lt;/title&gt;&lt;script&gt; </title>"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert!(!svg.contains("<script"));
    }

    #[test]
    fn bars_lie_where_their_time_is() {
        let bar = |begin, seconds| Bar { begin, seconds, title: String::new(), kind: 9 };
        let svg = draw("", "", 4.0, &[Lane { name: String::new(), bars: vec![bar(1.0, 2.0), bar(3.0, 1e-9)] }]);
        assert!(svg.contains("<rect x=\"500.00\" y=\"70\" width=\"600.00\""), "{svg}");
        assert!(svg.contains("<rect x=\"1100.00\" y=\"70\" width=\"0.10\""), "{svg}");
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(1.0), (0..=10).map(|i| f64::from(i) * 0.1).collect::<Vec<_>>());
        assert_eq!(ticks(0.025), [0.0, 0.005, 0.01, 0.015, 0.02, 0.025]);
        assert_eq!((ticks(0.0), ticks(f64::INFINITY)), (vec![0.0], vec![0.0]));
        for seconds in [1e-6, 0.0133, 7.3, 99.0, 1e5] {
            let ticks = ticks(seconds);
            assert!((3..=11).contains(&ticks.len()), "{seconds}: {ticks:?}");
        }
    }
}
