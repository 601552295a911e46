//! The grids that the points of `IQ1`, `IQ2` and `IQ3` weights are chosen from; `scripts/iq_grids.py` made and describes them.

use super::Type;

/// The grid of a type, as text: a word of two points every 12 characters.
pub fn text(ty: Type) -> Option<&'static str> {
    Some(match ty {
        Type::IQ1_S | Type::IQ1_M => include_str!("iq1_s"),
        Type::IQ2_XXS => include_str!("iq2_xxs"),
        Type::IQ2_XS => include_str!("iq2_xs"),
        Type::IQ2_S => include_str!("iq2_s"),
        Type::IQ3_XXS => include_str!("iq3_xxs"),
        Type::IQ3_S => include_str!("iq3_s"),
        _ => return None,
    })
}

/// The grid of a type, as shaders read it: 16 bits for each point.
pub fn bytes(ty: Type) -> Option<Vec<u8>> {
    let words = text(ty)?.split([',', '\n']).filter_map(|word| word.trim().strip_prefix("0x"));
    Some(words.filter_map(|digits| u32::from_str_radix(digits, 16).ok()).flat_map(u32::to_le_bytes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_there() {
        let cases = [(Type::IQ1_S, 2048), (Type::IQ1_M, 2048), (Type::IQ2_XXS, 256), (Type::IQ2_XS, 512)];
        for (ty, points) in cases.into_iter().chain([(Type::IQ2_S, 1024), (Type::IQ3_XXS, 256), (Type::IQ3_S, 512)]) {
            assert_eq!(bytes(ty).unwrap().len(), 2 * points, "{}", ty.name());
        }
        assert_eq!(bytes(Type::Q4_0), None);
    }
}
