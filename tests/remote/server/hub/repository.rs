//! What a hub has, as data: repositories, their revisions, and files.

use super::super::content::Content;
use super::super::encoding::{git_id, lfs_pointer, sha256};

/// What a repository is of. All but models have a prefix in addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Model,
    Dataset,
    Space,
}

impl Kind {
    /// Its name in addresses: `models`.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Model => "models",
            Self::Dataset => "datasets",
            Self::Space => "spaces",
        }
    }
}

/// Who may read a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Public,
    /// Only readers see that it is there.
    Private,
    /// Anybody sees it; who has agreed to its terms is a reader.
    GatedAuto,
    /// The same where a person decides.
    GatedManual,
}

/// A repository.
#[derive(Clone, Debug)]
pub struct Repository {
    pub kind: Kind,
    /// `namespace/name`, or only a name.
    pub name: String,
    /// Where revisions lead, name and commit: `main`, which is a branch, `refs/tags/v1`, `refs/pr/1`.
    pub refs: Vec<(String, String)>,
    pub snapshots: Vec<Snapshot>,
    pub access: Access,
    /// The tokens that may read it, unless it is public.
    pub readers: Vec<String>,
    /// Tokens of readers that lack the right to gated repositories.
    pub fine_grained: Vec<String>,
    /// What its card says.
    pub license: Option<String>,
    /// Nobody may read it any more.
    pub disabled: bool,
    /// Names it had, which lead to it.
    pub former_names: Vec<String>,
}

impl Repository {
    /// A public model with one commit, which `main` leads to.
    pub fn model(name: &str, files: Vec<File>) -> Self {
        let repository = Self {
            kind: Kind::Model,
            name: name.to_owned(),
            refs: Vec::new(),
            snapshots: Vec::new(),
            access: Access::Public,
            readers: Vec::new(),
            fine_grained: Vec::new(),
            license: None,
            disabled: false,
            former_names: Vec::new(),
        };
        repository.with_revision("main", files)
    }

    /// The same with one more commit of these files, which a revision leads to from now on.
    pub fn with_revision(mut self, revision: &str, files: Vec<File>) -> Self {
        let commit = commit_id(&self.name, self.snapshots.len(), &files);
        self.refs.retain(|(name, _)| name != revision);
        self.refs.push((revision.to_owned(), commit.clone()));
        self.snapshots.push(Snapshot { commit, files });
        self
    }

    /// The same as another kind.
    pub fn of_kind(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// The same for readers alone.
    pub fn with_access(self, access: Access, readers: &[&str]) -> Self {
        Self { access, readers: readers.iter().map(|token| (*token).to_owned()).collect(), ..self }
    }

    /// The same under a license.
    pub fn with_license(self, license: &str) -> Self {
        Self { license: Some(license.to_owned()), ..self }
    }

    /// The same, found under a name that it had, too.
    pub fn renamed_from(mut self, name: &str) -> Self {
        self.former_names.push(name.to_owned());
        self
    }

    /// What a revision or a commit leads to.
    pub fn snapshot(&self, revision: &str) -> Option<&Snapshot> {
        let is_it = |name: &str| {
            let short = name.strip_prefix("refs/tags/").or(name.strip_prefix("refs/heads/")).unwrap_or(name);
            name == revision || short == revision
        };
        let commit = self.refs.iter().find(|(name, _)| is_it(name)).map_or(revision, |(_, commit)| commit);
        self.snapshots.iter().find(|snapshot| snapshot.commit == commit)
    }

    /// The commit that `main` leads to.
    pub fn head(&self) -> &str {
        &self.snapshot("main").expect("it has a main revision").commit
    }
}

/// The files of one commit.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// 40 hexadecimal digits.
    pub commit: String,
    pub files: Vec<File>,
}

/// Where a hub keeps a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In git; `resolve` answers with it.
    Git,
    /// In git; `resolve` leads to a relative address, whose query is needed.
    GitCached,
    /// Elsewhere; `resolve` leads to a signed address of the second port.
    Lfs,
    /// As before, with the headers of Xet and this hash.
    Xet(String),
}

/// A file of a repository.
#[derive(Clone, Debug)]
pub struct File {
    pub path: String,
    pub content: Content,
    pub storage: Storage,
}

impl File {
    /// A small file in git, sent at once.
    pub fn git(path: &str, content: impl Into<Vec<u8>>) -> Self {
        Self::stored(path, Content::bytes(content), Storage::Git)
    }

    /// A small file in git, behind a relative redirect.
    pub fn cached(path: &str, content: impl Into<Vec<u8>>) -> Self {
        Self::stored(path, Content::bytes(content), Storage::GitCached)
    }

    /// A large file.
    pub fn lfs(path: &str, content: Content) -> Self {
        Self::stored(path, content, Storage::Lfs)
    }

    /// Any file.
    pub fn stored(path: &str, content: Content, storage: Storage) -> Self {
        Self { path: path.to_owned(), content, storage }
    }

    /// Whether it lies in git itself.
    pub fn is_in_git(&self) -> bool {
        matches!(self.storage, Storage::Git | Storage::GitCached)
    }

    /// The name of what git has of it: of the content, or of the pointer to it.
    pub fn git_id(&self) -> String {
        if self.is_in_git() {
            return self.content.git_id().expect("what lies in git is small");
        }
        git_id(self.pointer().as_bytes())
    }

    /// What git has of a large file. One without a digest has a pointer to zeros.
    pub fn pointer(&self) -> String {
        let digest = self.content.sha256().unwrap_or_else(|| "0".repeat(64));
        lfs_pointer(&digest, self.content.len())
    }

    /// The entity tag without its quotes. It tells a digest, unless there is none.
    pub fn etag(&self) -> String {
        if self.is_in_git() {
            return self.git_id();
        }
        // As an object store names what was uploaded in two parts.
        self.content.sha256().unwrap_or_else(|| format!("{}-2", &sha256(self.path.as_bytes())[..32]))
    }
}

/// A commit's name, which depends on what it has.
fn commit_id(name: &str, n_before: usize, files: &[File]) -> String {
    let listing: String = files.iter().map(|file| format!("{} {}\n", file.git_id(), file.path)).collect();
    git_id(format!("{name} {n_before}\n{listing}").as_bytes())
}
