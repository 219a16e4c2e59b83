//! Exact decimals within DynamoDB's limits.
//!
//! DynamoDB keeps numbers of up to 38 significant digits with magnitudes from 1E-130 to 9.99…E+125 and refuses all
//! others. [`Decimal`] holds exactly those: whatever leaves the limits is a [`DecimalError`], never a rounded value.

use std::fmt;
use std::str::FromStr;

use bigdecimal::{BigDecimal, Zero};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Most significant digits that a DynamoDB number can hold.
pub const DIGITS_MAX: u64 = 38;
/// Largest decimal exponent of the leading digit (9.99…E+125).
const EXPONENT_MAX: i64 = 125;
/// Smallest decimal exponent of the leading digit (1E-130).
const EXPONENT_MIN: i64 = -130;
/// Longest text that is parsed at all: 38 digits, sign, point and the zeros that a plain 1E-130 needs.
const TEXT_LENGTH_MAX: usize = 256;

/// An exact number as DynamoDB stores it: at most 38 significant digits, 1E-130 to 9.99…E+125, either sign, or zero.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Decimal(BigDecimal);

/// An exact running sum without limits: order does not matter, and only the total has to be a DynamoDB number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sum(BigDecimal);

impl Sum {
    pub fn add(&mut self, number: &Decimal) {
        self.0 += &number.0;
    }

    /// The total, if it fits 38 digits and the magnitude range.
    pub fn total(&self) -> Result<Decimal, DecimalError> {
        Decimal::fit(self.0.clone())
    }
}

/// Why a text or a result is not a DynamoDB number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecimalError {
    #[error("`{0}` is not a number")]
    Syntax(String),
    #[error("{digits} significant digits; DynamoDB holds {DIGITS_MAX}")]
    Digits { digits: u64 },
    #[error("magnitude 1E{exponent} is outside DynamoDB's 1E-130 to 9.99E+125")]
    Magnitude { exponent: i64 },
}

impl Decimal {
    pub fn zero() -> Decimal {
        Decimal(BigDecimal::zero())
    }

    pub fn is_zero(&self) -> bool {
        self.0.is_zero()
    }

    pub fn is_negative(&self) -> bool {
        self.0.sign() == bigdecimal::num_bigint::Sign::Minus
    }

    /// True if there is no fraction: 10, 1E3, -2.0.
    pub fn is_integer(&self) -> bool {
        self.0.is_integer()
    }

    /// The sum, if it fits 38 digits and the magnitude range.
    pub fn checked_add(&self, other: &Decimal) -> Result<Decimal, DecimalError> {
        // Counts are small integers, and there are many of them: no big number is built for those.
        match (self.as_small(), other.as_small()) {
            (Some(one), Some(two)) => Ok(Decimal::from(one + two)),
            _ => Decimal::fit(&self.0 + &other.0),
        }
    }

    /// The number if it is an integer that two of can be added without overflow.
    fn as_small(&self) -> Option<i64> {
        let (digits, scale) = self.0.as_bigint_and_scale();
        let is_small = scale == 0 && digits.bits() < 62;
        if is_small { i64::try_from(digits.as_ref()).ok() } else { None }
    }

    /// The difference, if it fits.
    pub fn checked_sub(&self, other: &Decimal) -> Result<Decimal, DecimalError> {
        Decimal::fit(&self.0 - &other.0)
    }

    /// The square, if it fits.
    pub fn checked_square(&self) -> Result<Decimal, DecimalError> {
        Decimal::fit(self.0.square())
    }

    pub fn negated(&self) -> Decimal {
        Decimal(-self.0.clone())
    }

    /// The nearest float; for statistics and pictures only, never for stored values.
    pub fn to_f64(&self) -> f64 {
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    /// Without exponent: `1000`, `0.05`, `-2.5`. No trailing zeros after the point.
    pub fn to_plain(&self) -> String {
        self.0.to_plain_string()
    }

    fn fit(value: BigDecimal) -> Result<Decimal, DecimalError> {
        let value = value.normalized();
        if value.is_zero() {
            return Ok(Decimal::zero());
        }
        let digits = value.digits();
        if digits > DIGITS_MAX {
            return Err(DecimalError::Digits { digits });
        }
        let exponent = digits as i64 - 1 - value.fractional_digit_count();
        if !(EXPONENT_MIN..=EXPONENT_MAX).contains(&exponent) {
            return Err(DecimalError::Magnitude { exponent });
        }
        Ok(Decimal(value))
    }
}

impl FromStr for Decimal {
    type Err = DecimalError;

    fn from_str(text: &str) -> Result<Decimal, DecimalError> {
        let syntax = || {
            let shown: String = text.chars().take(60).collect();
            DecimalError::Syntax(shown)
        };
        let plausible = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
        if text.is_empty() || text.len() > TEXT_LENGTH_MAX || !plausible {
            return Err(syntax());
        }
        // An absurd exponent must not make the parser build a number of a billion digits.
        if let Some(at) = text.find(['e', 'E']) {
            let exponent: i64 = text[at + 1..].parse().map_err(|_| syntax())?;
            if exponent.abs() > 1_000 {
                return Err(DecimalError::Magnitude { exponent });
            }
        }
        Decimal::fit(BigDecimal::from_str(text).map_err(|_| syntax())?)
    }
}

impl From<i64> for Decimal {
    fn from(value: i64) -> Decimal {
        let number = BigDecimal::from(value);
        // Without a zero at its end it is as short as can be.
        Decimal(if value % 10 == 0 { number.normalized() } else { number })
    }
}

/// Plain notation up to 40 characters, scientific beyond, so that 1E+125 stays readable.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = self.0.to_plain_string();
        if plain.len() <= 40 { f.write_str(&plain) } else { f.write_str(&self.0.to_scientific_notation()) }
    }
}

/// As text, the way DynamoDB's wire format carries numbers.
impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Decimal, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(text: &str) -> Decimal {
        text.parse().unwrap()
    }

    #[test]
    fn thirty_eight_digits_are_exact_and_thirty_nine_are_refused() {
        let max = "99999999999999999999999999999999999999";
        assert_eq!(d(max).to_string(), max);
        assert_eq!(d(max).checked_add(&d("1")).unwrap().to_plain(), format!("1{}", "0".repeat(38)));
        assert_eq!(d(max).checked_add(&d("2")), Err(DecimalError::Digits { digits: 39 }));
        assert_eq!(
            "123456789012345678901234567890123456789".parse::<Decimal>(),
            Err(DecimalError::Digits { digits: 39 })
        );
    }

    #[test]
    fn magnitude_limits_are_dynamodbs() {
        assert!("9.99e125".parse::<Decimal>().is_ok());
        assert!("1e-130".parse::<Decimal>().is_ok());
        assert_eq!("1e126".parse::<Decimal>(), Err(DecimalError::Magnitude { exponent: 126 }));
        assert_eq!("1e-131".parse::<Decimal>(), Err(DecimalError::Magnitude { exponent: -131 }));
        assert!(matches!("1e999999999".parse::<Decimal>(), Err(DecimalError::Magnitude { .. })));
    }

    #[test]
    fn text_that_is_no_number_is_refused() {
        for text in ["", " 1", "NaN", "inf", "0x10", "1_000", "1e", "--1", "1.2.3", "e5", "+", "."] {
            assert!(text.parse::<Decimal>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_sum_may_pass_through_what_a_number_cannot_hold() {
        let mut sum = Sum::default();
        for text in ["99999999999999999999999999999999999999", "0.5", "-99999999999999999999999999999999999999"] {
            sum.add(&d(text));
        }
        assert_eq!(sum.total(), Ok(d("0.5")));
        sum.add(&d("1e38"));
        assert_eq!(sum.total(), Err(DecimalError::Digits { digits: 40 }));
    }

    #[test]
    fn equal_numbers_are_equal_however_written() {
        assert_eq!(d("1.50"), d("1.5"));
        assert_eq!(d("100"), d("1E2"));
        assert_eq!(d("-0"), d("0"));
        assert_eq!(d("1E2").to_string(), "100");
        assert_eq!(d("0.050").to_string(), "0.05");
    }
}
