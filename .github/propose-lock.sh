#!/usr/bin/env bash
# Open a pull request with the lock file as `make lock` wrote it, or update the one that is open.
# GH_TOKEN and GITHUB_REPOSITORY are set by the workflow. Close and open the pull request to start its checks.
set -euo pipefail
export GH_REPO=$GITHUB_REPOSITORY
branch=update-lock
file=.github/constraints.txt
if git diff --quiet -- "$file"; then
    echo "the lock file is up to date"
    exit 0
fi
git checkout --quiet -B "$branch"
git -c user.name="github-actions[bot]" -c user.email="41898282+github-actions[bot]@users.noreply.github.com" \
    commit --quiet --message "github: update the lock file" -- "$file"
git push --quiet --force "https://x-access-token:$GH_TOKEN@github.com/$GITHUB_REPOSITORY.git" "$branch"
if [ -z "$(gh pr list --head "$branch" --state open --json number --jq '.[].number')" ]; then
    gh pr create --head "$branch" --title "github: update the lock file" --body "Written by \`make lock\`."
fi
