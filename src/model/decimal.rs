//! Exact decimals within DynamoDB's limits.
//!
//! DynamoDB keeps numbers of up to 38 significant digits with magnitudes from 1E-130 to 9.99…E+125 and refuses all
//! others. [`Decimal`] holds exactly those: whatever leaves the limits is a [`DecimalError`], never a rounded value.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use bigdecimal::num_bigint::Sign;
use bigdecimal::{BigDecimal, ToPrimitive, Zero};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::value::Text;

/// Most significant digits that a DynamoDB number can hold.
pub const DIGITS_MAX: u64 = 38;
/// Largest decimal exponent of the leading digit (9.99…E+125).
const EXPONENT_MAX: i64 = 125;
/// Smallest decimal exponent of the leading digit (1E-130).
const EXPONENT_MIN: i64 = -130;
/// Longest text that is parsed at all: 38 digits, sign, point and the zeros that a plain 1E-130 needs.
const TEXT_LENGTH_MAX: usize = 256;

/// An exact number as DynamoDB stores it: at most 38 significant digits, 1E-130 to 9.99…E+125, either sign, or zero.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Decimal(Repr);

/// Whole numbers of 64 bits are `Small`, always, and all others `Big` and normalised, so that equal numbers are equal here. Nearly
/// all numbers are counts, and those take no allocation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Repr {
    Small(i64),
    Big(Box<BigDecimal>),
}

/// An exact running sum without limits: order does not matter, and only the total has to be a DynamoDB number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sum(BigDecimal);

impl Sum {
    pub fn add(&mut self, number: &Decimal) {
        match &number.0 {
            Repr::Small(number) => self.0 += BigDecimal::from(*number),
            Repr::Big(number) => self.0 += number.as_ref(),
        }
    }

    /// Adds what another sum has come to.
    pub fn merge(&mut self, other: &Sum) {
        self.0 += &other.0;
    }

    /// The total, if it fits 38 digits and the magnitude range.
    pub fn total(&self) -> Result<Decimal, DecimalError> {
        Decimal::fit(self.0.clone())
    }
}

/// As a text with every digit.
impl Serialize for Sum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Sum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Sum, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Sum).map_err(|_| de::Error::custom(format_args!("`{text}` is no sum")))
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
        Decimal(Repr::Small(0))
    }

    pub fn is_zero(&self) -> bool {
        self.0 == Repr::Small(0)
    }

    pub fn is_negative(&self) -> bool {
        match &self.0 {
            Repr::Small(number) => *number < 0,
            Repr::Big(number) => number.sign() == Sign::Minus,
        }
    }

    /// True if there is no fraction: 10, 1E3, -2.0.
    pub fn is_integer(&self) -> bool {
        match &self.0 {
            Repr::Small(_) => true,
            Repr::Big(number) => number.is_integer(),
        }
    }

    /// The sum, if it fits 38 digits and the magnitude range.
    pub fn checked_add(&self, other: &Decimal) -> Result<Decimal, DecimalError> {
        self.calculate(other, i64::checked_add, |one, other| one + other)
    }

    /// The difference, if it fits.
    pub fn checked_sub(&self, other: &Decimal) -> Result<Decimal, DecimalError> {
        self.calculate(other, i64::checked_sub, |one, other| one - other)
    }

    /// The square, if it fits.
    pub fn checked_square(&self) -> Result<Decimal, DecimalError> {
        self.calculate(self, i64::checked_mul, |one, other| one * other)
    }

    /// By `small` where that is possible, else by `big`.
    fn calculate(
        &self,
        other: &Decimal,
        small: fn(i64, i64) -> Option<i64>,
        big: fn(&BigDecimal, &BigDecimal) -> BigDecimal,
    ) -> Result<Decimal, DecimalError> {
        if let (Repr::Small(one), Repr::Small(other)) = (&self.0, &other.0)
            && let Some(result) = small(*one, *other)
        {
            return Ok(Decimal::from(result));
        }
        Decimal::fit(big(&self.big(), &other.big()))
    }

    pub fn negated(&self) -> Decimal {
        match &self.0 {
            // The least number has no counterpart in 64 bits.
            Repr::Small(number) if *number > i64::MIN => Decimal(Repr::Small(-number)),
            _ => Decimal::of((-self.big().into_owned()).normalized()),
        }
    }

    /// The nearest float; for statistics and pictures only, never for stored values.
    pub fn to_f64(&self) -> f64 {
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    /// Without exponent: `1000`, `0.05`, `-2.5`. No trailing zeros after the point.
    pub fn to_plain(&self) -> String {
        match &self.0 {
            Repr::Small(number) => number.to_string(),
            Repr::Big(number) => number.to_plain_string(),
        }
    }

    /// Significant digits, 1 at least: neither the zeros in front of them nor those after them, as DynamoDB counts.
    pub fn digits(&self) -> usize {
        match &self.0 {
            Repr::Small(number) => {
                let mut digits = number.unsigned_abs();
                while digits != 0 && digits.is_multiple_of(10) {
                    digits /= 10;
                }
                digits.checked_ilog10().unwrap_or(0) as usize + 1
            }
            Repr::Big(number) => usize::try_from(number.digits()).unwrap_or(usize::MAX),
        }
    }

    fn big(&self) -> Cow<'_, BigDecimal> {
        match &self.0 {
            Repr::Small(number) => Cow::Owned(BigDecimal::from(*number)),
            Repr::Big(number) => Cow::Borrowed(number),
        }
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
        Ok(Decimal::of(value))
    }

    /// A normalised number that is known to be within the limits.
    fn of(value: BigDecimal) -> Decimal {
        let small = if value.is_integer() { value.to_i64() } else { None };
        Decimal(small.map_or_else(|| Repr::Big(Box::new(value)), Repr::Small))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        match (&self.0, &other.0) {
            (Repr::Small(one), Repr::Small(other)) => one.cmp(other),
            _ => self.big().cmp(&other.big()),
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FromStr for Decimal {
    type Err = DecimalError;

    fn from_str(text: &str) -> Result<Decimal, DecimalError> {
        let syntax = || {
            let shown: String = text.chars().take(60).collect();
            DecimalError::Syntax(shown)
        };
        let bytes = text.as_bytes();
        // A sign stands in front of the number or of its exponent.
        let plausible = bytes.iter().enumerate().all(|(at, byte)| match byte {
            b'+' | b'-' => at == 0 || matches!(bytes[at - 1], b'e' | b'E'),
            byte => byte.is_ascii_digit() || b".eE".contains(byte),
        });
        if text.is_empty() || text.len() > TEXT_LENGTH_MAX || !plausible {
            return Err(syntax());
        }
        if let Ok(small) = text.parse() {
            return Ok(Decimal(Repr::Small(small)));
        }
        // An absurd exponent must not make the parser build a number of a billion digits.
        if let Some(at) = text.find(['e', 'E']) {
            let exponent: i64 = text[at + 1..].parse().map_err(|_| syntax())?;
            if exponent.unsigned_abs() > 1_000 {
                return Err(DecimalError::Magnitude { exponent });
            }
        }
        Decimal::fit(BigDecimal::from_str(text).map_err(|_| syntax())?)
    }
}

impl From<i64> for Decimal {
    fn from(value: i64) -> Decimal {
        Decimal(Repr::Small(value))
    }
}

/// Plain notation up to 40 characters, scientific beyond, so that 1E+125 stays readable.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Small(number) => write!(f, "{number}"),
            Repr::Big(number) => {
                let plain = number.to_plain_string();
                if plain.len() <= 40 { f.write_str(&plain) } else { f.write_str(&number.to_scientific_notation()) }
            }
        }
    }
}

/// As text, the way DynamoDB's wire format carries numbers.
impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Repr::Small(number) => serializer.serialize_str(&number.to_string()),
            Repr::Big(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Decimal, D::Error> {
        let text = Text::deserialize(deserializer)?;
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
        for text in ["1e999999999", "1e9223372036854775807", "1e-9223372036854775808"] {
            assert!(matches!(text.parse::<Decimal>(), Err(DecimalError::Magnitude { .. })), "{text}");
        }
    }

    #[test]
    fn text_that_is_no_number_is_refused() {
        for text in
            ["", " 1", "NaN", "inf", "0x10", "1_000", "1e", "--1", "1.2.3", "e5", "+", ".", ".-5", "1.+5", "1-5"]
        {
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
    fn zeros_at_the_ends_are_no_significant_digits() {
        let digits =
            [("0", 1), ("7", 1), ("-120", 2), ("1000000000000000000", 1), ("1e38", 1), ("0.00012", 2), ("10.01", 4)];
        for (text, count) in digits {
            assert_eq!(d(text).digits(), count, "{text}");
        }
        assert_eq!(d(&"9".repeat(38)).digits(), 38);
    }

    #[test]
    fn nothing_shows_where_64_bits_end() {
        let (max, min) = (i64::MAX.to_string(), i64::MIN.to_string());
        for (one, other, sum) in
            [(max.as_str(), "1", "9223372036854775808"), (&min, "-1", "-9223372036854775809"), ("0.5", "0.5", "1")]
        {
            let added = d(one).checked_add(&d(other)).unwrap();
            assert_eq!((added.to_plain(), &added), (sum.to_owned(), &d(sum)));
            assert_eq!(added.checked_sub(&d(other)).unwrap(), d(one), "back below the border it is the same number");
        }
        assert_eq!(d(&min).negated(), d("9223372036854775808"));
        assert_eq!(d(&min).negated().negated(), d(&min));
        assert_eq!(d("4294967296").checked_square().unwrap().to_plain(), "18446744073709551616");
        assert_eq!(d("92233720368547758.07e2"), Decimal::from(i64::MAX));
        let sorted =
            ["-1e30", &min, "-0.5", "0", "0.5", "1", &max, "9223372036854775807.5", "9223372036854775808"].map(d);
        assert!(sorted.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(d("1e3").is_integer() && d("1e30").is_integer() && !d("0.5").is_integer());
        assert!(d("-1e30").is_negative() && d("-3").is_negative() && !d("0").is_negative());
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
