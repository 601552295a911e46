//! Numbers for people: three digits and a unit.

/// Three significant digits of a number below 1000.
fn digits(number: f64) -> String {
    match number {
        n if n < 9.995 => format!("{n:.2}"),
        n if n < 99.95 => format!("{n:.1}"),
        n => format!("{n:.0}"),
    }
}

/// The largest of the units that leaves at least one, the last one if none does; each is the factor to the next.
fn scaled(number: f64, units: &[(f64, &str)]) -> String {
    let fits = |unit: &&(f64, &str)| number >= 0.9995 * unit.0;
    let (factor, name) = units.iter().find(fits).or(units.last()).copied().unwrap_or((1.0, ""));
    format!("{} {name}", digits(number / factor))
}

/// Seconds, as `84.0 us` or `12.3 ms`.
pub fn time(seconds: f64) -> String {
    if seconds == 0.0 {
        return "0".to_owned();
    }
    scaled(seconds, &[(1.0, "s"), (1e-3, "ms"), (1e-6, "us")])
}

/// Joules, as `0.31 J` or `4.20 mJ`.
pub fn joule(joules: f64) -> String {
    scaled(joules, &[(1.0, "J"), (1e-3, "mJ"), (1e-6, "uJ")])
}

/// Bytes, in powers of a thousand.
pub fn bytes(bytes: f64) -> String {
    scaled(bytes, &[(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")])
}

/// Operations; a multiplication and an addition are two.
pub fn operations(operations: f64) -> String {
    scaled(operations, &[(1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP")])
}

/// A share, as `78 %`; more digits where it is small.
pub fn percent(share: f64) -> String {
    match 100.0 * share {
        p if p >= 9.95 || p == 0.0 => format!("{p:.0} %"),
        p if p >= 0.095 => format!("{p:.1} %"),
        p => format!("{p:.2} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_their_unit() {
        assert_eq!([time(84e-6), time(0.0123), time(1.5), time(0.0)], ["84.0 us", "12.3 ms", "1.50 s", "0"]);
        assert_eq!([time(0.9999e-3), time(0.0099996), time(3e-8)], ["1.00 ms", "10.0 ms", "0.03 us"]);
        assert_eq!([bytes(4.617e9), bytes(89.6e9), bytes(123456.0)], ["4.62 GB", "89.6 GB", "123 kB"]);
        assert_eq!([joule(7.308), joule(0.0042)], ["7.31 J", "4.20 mJ"]);
        assert_eq!([operations(2.5e12), operations(1e6)], ["2.50 TFLOP", "1.00 MFLOP"]);
        assert_eq!(
            [percent(0.784), percent(0.0532), percent(0.0004), percent(0.0)],
            ["78 %", "5.3 %", "0.04 %", "0 %"]
        );
    }
}
