//! From figures to places: round ticks, and zero always on the axis.

/// A linear scale whose ends are round.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    pub low: f64,
    pub high: f64,
    pub step: f64,
}

/// Ticks that are wanted at most.
const TICKS_MAX: f64 = 5.0;
/// Largest magnitude on an axis: its ends and their distance stay finite.
const VALUE_MAX: f64 = 1e300;

impl Scale {
    /// Covers all values and zero. Whole numbers get whole ticks.
    pub fn of(values: impl Iterator<Item = f64> + Clone) -> Scale {
        // Sums of finite figures may be infinite; an axis may not.
        let values = values.map(|value| value.clamp(-VALUE_MAX, VALUE_MAX));
        let low = values.clone().fold(0.0f64, f64::min);
        let high = values.clone().fold(0.0f64, f64::max);
        let whole = values.clone().all(|value| value.fract() == 0.0);
        let span = if high > low { high - low } else { 1.0 };
        let step = round_step(span / TICKS_MAX, whole);
        let high = if high > low { high } else { low + step };
        Scale { low: (low / step).floor() * step, high: (high / step).ceil() * step, step }
    }

    /// 0 at the low end, 1 at the high end.
    pub fn share(&self, value: f64) -> f64 {
        let share = (value - self.low) / (self.high - self.low);
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    pub fn ticks(&self) -> impl Iterator<Item = f64> {
        let (low, step) = (self.low, self.step);
        let count = ((self.high - low) / step).round().clamp(0.0, 20.0) as usize;
        (0..=count).map(move |n| low + step * n as f64)
    }
}

/// The next of 1, 2, 5 times a power of ten.
fn round_step(least: f64, whole: bool) -> f64 {
    let least = if least.is_finite() && least > 0.0 { least } else { 1.0 };
    let power = 10f64.powf(least.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|step| *step >= least * 0.999).unwrap_or(power);
    if whole { step.max(1.0) } else { step }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ticks_are_round() {
        let ticks = |values: &[f64]| Scale::of(values.iter().copied()).ticks().collect::<Vec<_>>();
        assert_eq!(ticks(&[1.0, 2.0]), [0.0, 1.0, 2.0]);
        assert_eq!(ticks(&[0.0, 0.0]), [0.0, 1.0]);
        assert_eq!(ticks(&[-3.0, 7.0]), [-4.0, -2.0, 0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(ticks(&[-2.0]), [-2.0, -1.0, 0.0]);
        assert_eq!(ticks(&[1234.0]), [0.0, 500.0, 1000.0, 1500.0]);
    }

    proptest! {
        #[test]
        fn every_value_has_a_place(values in prop::collection::vec(-1e12f64..1e12, 1..20)) {
            let scale = Scale::of(values.iter().copied());
            prop_assert!(scale.low <= 0.0 && scale.high >= 0.0 && scale.high > scale.low);
            for value in values {
                prop_assert!(scale.low <= value + scale.step * 1e-6 && value - scale.step * 1e-6 <= scale.high);
            }
            prop_assert!(scale.ticks().count() <= 12);
        }
    }
}
