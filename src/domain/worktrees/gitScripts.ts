/**
 * What is run in the guest for a worktree: shell scripts around git, their words and their exit codes. Each may be
 * repeated. They run as the guest's user, with the hooks of the repository left out; their words are checked names. Pure.
 *
 * One repository has one name: its path without links, at its own top, with its own git directory. So two claims never
 * meet in one repository, and a worktree is never claimed as a repository.
 */
import type { WorktreeRefusalCode } from "./Worktree.ts"

/** Exit codes of the scripts that mean a refusal. Others are git's own. */
const codes: Readonly<Record<number, WorktreeRefusalCode>> = {
  40: "repository_not_found",
  41: "git_unavailable",
  42: "worktree_path_taken",
  43: "branch_exists",
  44: "start_point_not_found",
  45: "branch_in_use",
  46: "worktree_dirty",
  47: "worktree_locked"
}

/** Exit codes of `addScript`: its place, or its branch, has come to be somebody else's meanwhile, and was not made. */
export const placeNotMadeCode = 42
export const branchNotMadeCode = 48

/** What the exit code of a script means; null where it has done its work. */
export const refusalOfExit = (exitCode: number): WorktreeRefusalCode | null =>
  exitCode === 0 ? null : (codes[exitCode] ?? "worktree_failed")

/** `$1` the repository below the workspace, `$2` the worktree's path, `$3` its branch, `$4` a commit or nothing. */
const prelude = `
repository=/workspace/$1 tree=$2 branch=$3 commit=$4
enter() {
  command -v git >/dev/null 2>&1 || exit 41
  cd "$repository" 2>/dev/null || return 1
  directory=$(git rev-parse --absolute-git-dir 2>/dev/null) || return 1
  common=$(git rev-parse --path-format=absolute --git-common-dir 2>/dev/null) || return 1
  [ "$directory" = "$common" ] || return 1
  [ "$directory" = "$repository/.git" ] || [ "$directory" = "$repository" ]
}
present() { [ -e "$tree" ] || [ -L "$tree" ]; }
entries() { git worktree list --porcelain 2>/dev/null; }
listed() { entries | grep -Fxq "worktree $tree"; }
used() { entries | grep -Fxq "branch refs/heads/$branch"; }
tip() { git rev-parse --verify --quiet "refs/heads/$branch"; }
locked() {
  entries | {
    mine=
    while IFS= read -r line; do
      case $line in
        "worktree $tree") mine=1 ;;
        "") mine= ;;
        locked*) [ -z "$mine" ] || exit 0 ;;
      esac
    done
    exit 1
  }
}
`

/** Looks before anything is made. Answers the commit at which a branch has to be made; nothing where it is there. */
export const lookScript = `${prelude}
enter || exit 40
! present || exit 42
if tip >/dev/null; then
  [ -z "$commit" ] || exit 43
  ! used || exit 45
else
  git rev-parse --verify --quiet "\${commit:-HEAD}^{commit}" || exit 44
fi
`

/** Makes the worktree's place, which nobody else can have made then, its branch where a commit is given, and itself. */
export const addScript = `${prelude}
enter || exit 40
mkdir -p "\${tree%/*}" && mkdir "$tree" 2>/dev/null || exit ${placeNotMadeCode}
if [ -n "$commit" ]; then
  git branch --no-track "$branch" "$commit" >/dev/null 2>&1 || exit ${branchNotMadeCode}
fi
exec git worktree add --quiet "$tree" "$branch" >/dev/null 2>&1
`

/** Whether the worktree holds nothing that is nowhere else. One that is gone holds nothing. */
export const checkScript = `${prelude}
present || exit 0
enter || exit 40
! locked || exit 47
listed || exit 46
status=$(git -C "$tree" status --porcelain 2>/dev/null) || exit 46
[ -z "$status" ] || exit 46
`

/**
 * Removes the worktree with everything in it, however far its making or an earlier removal has come: also a tree that git
 * does not know, an entry of git's without a tree, and an entry that git had only begun ("initializing"), which its own
 * prune passes over. The branch goes only where the commit is given at which this worktree's making made it, where it
 * still stands there, and where nobody else has it checked out.
 */
export const removeScript = `${prelude}
clear() { rm -rf "$tree" 2>/dev/null || { chmod -R u+rwX "$tree"; rm -rf "$tree"; }; } >/dev/null 2>&1
if enter; then
  git worktree remove --force --force "$tree" >/dev/null 2>&1
  clear || exit 1
  git worktree unlock "$tree" >/dev/null 2>&1
  for entry in "$common/worktrees/\${tree##*/}" "$common/worktrees/\${tree##*/}"[0-9]*; do
    [ "$(cat "$entry/locked" 2>/dev/null)" = initializing ] || continue
    gitdir=$(cat "$entry/gitdir" 2>/dev/null)
    [ -z "$gitdir" ] || [ "$gitdir" = "$tree/.git" ] || continue
    rm -rf "$entry" || exit 1
  done
  ! listed || git worktree prune >/dev/null 2>&1
  ! listed || exit 1
  if [ -n "$commit" ]; then
    rm -f "$common/refs/heads/$branch.lock"
    [ "$(tip)" != "$commit" ] || used || git branch -D "$branch" >/dev/null 2>&1 || exit 1
  fi
else
  clear || exit 1
fi
`

/** Nobody is asked, git says what the scripts look for, and nothing of the repository but its filters is run. */
export const gitEnvironment: Readonly<Record<string, string>> = {
  LC_ALL: "C",
  GIT_TERMINAL_PROMPT: "0",
  GIT_CEILING_DIRECTORIES: "/workspace/.worktrees",
  GIT_CONFIG_COUNT: "1",
  GIT_CONFIG_KEY_0: "core.hooksPath",
  GIT_CONFIG_VALUE_0: "/dev/null"
}
