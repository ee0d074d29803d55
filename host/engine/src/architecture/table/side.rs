//! A rule's tensors in one dialect: their names, and what is done to the canonical ones.

use crate::architecture::language::expression::{Expression, Scope};
use crate::architecture::language::members::{
    bad, each, expression, list, only, patterns, sub_table, truth, words,
};
use crate::architecture::language::operation::Operation;
use crate::architecture::language::pattern::Pattern;
use crate::architecture::language::table_error::{Read, Within};
use apr_sdk::{Error, Result, escape};
use toml::Value as Item;

/// How a tensor is computed from the configuration.
#[derive(Clone, Debug)]
pub enum Generator {
    /// The divisors of Llama 3's rotary frequencies.
    Llama3Frequencies,
    /// The items of a list, as F32.
    Values {
        /// The list.
        values: Expression,
        /// What the tensor says of the configuration on the way back; `it` is the list that it holds, or all those of a
        /// place hold, one after the other.
        sets: Vec<(String, Expression)>,
        /// Whether it is one number, without dimensions.
        scalar: bool,
    },
    /// The rows that another tensor has for some tokens.
    Rows {
        /// That tensor's canonical name.
        of: String,
        /// The texts of the tokens.
        tokens: Vec<String>,
    },
}

impl Generator {
    /// The names that such a tensor sets by expressions of the table's own.
    pub fn sets(&self) -> &[(String, Expression)] {
        match self {
            Generator::Llama3Frequencies | Generator::Rows { .. } => &[],
            Generator::Values { sets, .. } => sets,
        }
    }
}

/// The float type that a dialect has a tensor in, whatever its writer takes for tensors of such a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// F32.
    Full,
    /// That of most matrices.
    Usual,
}

/// A rule's tensors in one dialect.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// The names in the dialect.
    pub images: Vec<Pattern>,
    /// The roles of several images, each of its own; none if they have no roles.
    pub roles: Vec<String>,
    /// The operations from the members to the images.
    pub operations: Vec<Operation>,
    /// Further operations on each image separately.
    pub each: Vec<Vec<Operation>>,
    /// Why the dialect cannot do without, although models in others may.
    pub required: Option<String>,
    /// Why the dialect has none.
    pub dropped: Option<String>,
    /// The generator, if the source has none.
    pub generated: Option<Generator>,
    /// Its float type, if not the writer's choice.
    pub precision: Option<Precision>,
    /// What is added to the numbers of places in its names: layers that a dialect counts behind others.
    pub offsets: Vec<(String, Expression)>,
}

impl Side {
    /// What is added to the number at a place of its names.
    ///
    /// # Errors
    /// As [`Expression::size`].
    pub(in crate::architecture) fn offset(&self, place: &str, scope: &dyn Scope) -> Result<u64> {
        let offset = self.offsets.iter().find(|(own, _)| own == place);
        offset.map_or(Ok(0), |(_, offset)| offset.size(scope))
    }

    /// A pattern of it with numbers at its places.
    ///
    /// # Errors
    /// As [`Side::offset`].
    pub(in crate::architecture) fn name(
        &self,
        image: &Pattern,
        scope: &dyn Scope,
        number_of: impl Fn(&str) -> u64,
    ) -> Result<String> {
        let mut numbers: Vec<u64> = image.places().iter().map(|place| number_of(place)).collect();
        for (place, offset) in &self.offsets {
            if let Some(at) = image.places().iter().position(|own| own == place) {
                numbers[at] = numbers[at].saturating_add(offset.size(scope)?);
            }
        }
        Ok(image.numbered(&numbers))
    }
}

/// Reads a dialect's side of a rule.
///
/// # Errors
/// InvalidArgument for names, operations or offsets that cannot be.
pub(super) fn read_side(item: &Item) -> Read<Side> {
    let toml = match item {
        Item::String(name) => {
            return Ok(Side { images: vec![Pattern::parse(name)?], ..Side::default() });
        }
        Item::Table(toml) => toml,
        other => return Err(bad("a dialect entry", other).into()),
    };
    only(
        toml,
        &["name", "names", "roles", "ops", "each", "drop", "required", "generate", "offset", "type"],
        "a dialect entry",
    )?;
    let mut side = Side {
        images: patterns(toml)?,
        roles: list(toml, "roles")?,
        operations: Operation::read(toml.get("ops")).within("ops")?,
        required: words(toml, "required")?,
        dropped: words(toml, "drop")?,
        generated: read_generator(toml.get("generate")).within("generate")?,
        precision: match words(toml, "type")?.as_deref() {
            None => None,
            Some("f32") => Some(Precision::Full),
            Some("usual") => Some(Precision::Usual),
            Some(other) => {
                let other = escape(other, 40);
                let message = format!("`type` must be `f32` or `usual`, not `{other}`");
                return Err(Error::invalid_argument(message)).within("type");
            }
        },
        ..Side::default()
    };
    if let lists @ Some(Item::Array(_)) = toml.get("each") {
        side.each = each(lists, |one| Operation::read(Some(one))).within("each")?;
    }
    for (place, _) in sub_table(toml, "offset")? {
        if !side.images.iter().all(|image| image.places().contains(place)) {
            let message = format!(
                "`offset` refers to `{}`, which is not a placeholder of its names",
                escape(place, 80)
            );
            return Err(Error::invalid_argument(message)).within(place.as_str()).within("offset");
        }
        let offset = expression(sub_table(toml, "offset")?, place).within("offset")?;
        side.offsets.extend(offset.map(|offset| (place.clone(), offset)));
    }
    if side.generated.is_some() {
        let has_one = side.images.len() == 1
            && side.images.iter().all(|image| !image.is_open() && image.places().len() < 2);
        if !has_one || !side.operations.is_empty() || !side.each.is_empty() || toml.contains_key("offset") {
            return Err(Error::invalid_argument(
                "an entry with `generate` takes one name with at most one placeholder, and no `ops`, `each` \
                 or `offset`",
            ))
            .within("generate");
        }
    }
    if side.images.is_empty() != side.dropped.is_some() {
        return Err(Error::invalid_argument(
            "a dialect entry requires names, or a reason for having none (`drop`)",
        )
        .into());
    }
    for (key, entries) in [("each", side.each.len()), ("roles", side.roles.len())] {
        if entries > 0 && entries != side.images.len() {
            let message = format!("`{key}` must have one entry for each name");
            return Err(Error::invalid_argument(message)).within(key);
        }
    }
    Ok(side)
}

fn read_generator(item: Option<&Item>) -> Read<Option<Generator>> {
    let toml = match item {
        None => return Ok(None),
        Some(Item::String(name)) if name == "llama3_freqs" => return Ok(Some(Generator::Llama3Frequencies)),
        Some(Item::Table(toml)) => toml,
        Some(other) => return Err(bad("`generate`", other).into()),
    };
    if let Some(of) = words(toml, "rows")? {
        only(toml, &["rows", "tokens"], "`generate`")?;
        let tokens = list(toml, "tokens")?;
        if tokens.is_empty() {
            return Err(Error::invalid_argument("`rows` requires `tokens`, whose rows they are").into());
        }
        return Ok(Some(Generator::Rows { of, tokens }));
    }
    only(toml, &["values", "sets", "scalar"], "`generate`")?;
    let values = expression(toml, "values")?.ok_or_else(|| {
        Error::invalid_argument(
            "`generate` requires `values`, the list that the tensor holds, or `rows`, another tensor's name",
        )
    })?;
    let mut sets = Vec::new();
    let from = sub_table(toml, "sets")?;
    for name in from.keys() {
        sets.extend(expression(from, name).within("sets")?.map(|value| (name.clone(), value)));
    }
    Ok(Some(Generator::Values { values, sets, scalar: truth(toml, "scalar")? }))
}
