//! Parts of a layout: another format's writer lays out tensors of the model in files of the same output.

use crate::layout::carries;
use crate::layout::{Collector, Layout, Placed, Scope, Segment};
use crate::open::option_values;
use crate::registry::Format;
use apr_sdk::manifest::DialectRule;
use apr_sdk::{Error, LayoutRequest, Model, Options, PartRequest, Result};

impl Collector<'_> {
    /// Asks the part's format for its files and appends them to the layout.
    ///
    /// # Errors
    /// Unsupported if that format is not available or cannot hold a tensor; Plugin for tensors that the model
    /// does not have, and for parts inside parts; any error from its writer.
    pub fn lay_out_part(&mut self, part: &PartRequest<'_>) -> Result<()> {
        let id = part.format;
        if self.is_part {
            return Err(Error::plugin(format!("the writer of a part requested a `{id}` part inside it")));
        }
        let registry = self.registry;
        let format = registry.format(id).map_err(|e| {
            Error::unsupported(format!("writing this requires the format `{id}`: {}", e.message()))
        })?;
        let writer = format.writer()?;
        let numbers = numbers(part, self.model)?;
        let model = part_of(self.model, &numbers, format);
        let model = carries::checked(model, format, self.registry.formats(), self.casting)?;
        check_dialect(&model, format, self.any_dialect)?;
        let request = self.part_request(part, format)?;
        let mut inner = Collector::new(registry, self.opened, writer.as_ref(), &model, &request).inside(self);
        writer.layout(&model, &request, &mut inner)?;
        let names = inner.names.clone();
        let laid_out = inner.finish()?;
        self.names.extend(names);
        self.append(laid_out, format.id(), &numbers);
        Ok(())
    }

    fn part_request(&self, part: &PartRequest<'_>, format: &Format) -> Result<LayoutRequest> {
        let mut options = option_values(format, self.given, |spec| spec.write)?;
        for (name, value) in part.options.iter() {
            let declared = format.manifest.options.iter().find(|spec| spec.write && spec.name == name);
            if !declared.is_some_and(|spec| spec.accepts(value)) {
                let message =
                    format!("the writer requested the unknown option `{}.{name}={value}`", format.id());
                return Err(Error::plugin(message));
            }
            // The user's options take precedence.
            let mut own = self.given.iter().filter(|(of, ..)| of.as_ref().is_none_or(|of| of == format.id()));
            if !own.any(|(_, given, _)| given == name) {
                options.set(name, value);
            }
        }
        options.set(Options::PART, "true");
        let mut request = self.request.clone();
        request.stem = part.stem.to_owned();
        request.file_name = String::new();
        request.folder = true;
        request.options = options;
        Ok(request)
    }

    /// Appends a part's files to the layout, renumbering tensors and holes.
    fn append(&mut self, part: Layout, format: &str, numbers: &[usize]) {
        let mut scope =
            Scope { format: Some(format.to_owned()), tensors: Some(numbers.to_vec()), ..Scope::default() };
        let own = part.scopes.into_iter().next().unwrap_or_default();
        let first = self.layout.files.len();
        let base = self.layout.next_hole;
        for mut file in part.files {
            for Placed { segment, .. } in &mut file.segments {
                match segment {
                    Segment::Payload { tensor, .. } => *tensor = numbers[*tensor],
                    Segment::Hole { id } => *id += base,
                    _ => {}
                }
            }
            scope.files.push(self.layout.files.len());
            self.layout.files.push(file);
        }
        for (id, (file, offset, len)) in part.holes {
            self.layout.holes.insert(base + id, (first + file, offset, len));
        }
        scope.holes = own.holes.into_iter().map(|(id, number)| (id, base + number)).collect();
        self.layout.entries.push(first + part.entry);
        self.layout.next_hole = base + part.next_hole;
        part.digests.into_iter().for_each(|sum| self.layout.wants(sum));
        self.layout.notes.extend(part.notes);
        self.layout.scopes.push(scope);
        self.in_file = false;
    }
}

/// Indices of the part's tensors in the whole model.
fn numbers(part: &PartRequest<'_>, model: &Model) -> Result<Vec<usize>> {
    let Some(tensors) = part.tensors else { return Ok((0..model.tensors.len()).collect()) };
    let mut taken = vec![false; model.tensors.len()];
    let mut numbers = Vec::with_capacity(tensors.len());
    for &number in tensors {
        let place = usize::try_from(number).unwrap_or(usize::MAX);
        let times = match taken.get_mut(place) {
            Some(taken) if !*taken => {
                *taken = true;
                numbers.push(place);
                continue;
            }
            Some(_) => " twice",
            None => "",
        };
        return Err(Error::plugin(format!("the writer put tensor {number} into a part{times}")));
    }
    Ok(numbers)
}

/// The model for a part's writer: its tensors, and its own format's metadata. The rest belongs to the whole.
fn part_of(whole: &Model, numbers: &[usize], format: &Format) -> Model {
    let mut model = Model::default();
    model.format.clone_from(&whole.format);
    model.dialect.clone_from(&whole.dialect);
    model.tensors = numbers.iter().map(|&number| whole.tensors[number].clone()).collect();
    model.foreign = whole.foreign_of(format.id()).cloned().into_iter().collect();
    model
}

fn check_dialect(model: &Model, format: &Format, any: bool) -> Result<()> {
    match &format.manifest.dialect {
        DialectRule::Always(want) | DialectRule::Requires(want) if !any && *want != model.dialect => {
            let name = &format.manifest.name;
            let have = &model.dialect;
            Err(Error::unsupported(format!(
                "{name} requires names in the dialect `{want}`, but the model has `{have}`"
            )))
        }
        _ => Ok(()),
    }
}
