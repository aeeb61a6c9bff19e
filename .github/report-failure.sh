#!/usr/bin/env bash
# Open an issue about jobs of the nightly run that failed, or comment on the one that is open.
# GITHUB_REPOSITORY, RUN (address of the run) and JOBS (the JSON of "needs") are set by the workflow.
set -euo pipefail
export GH_REPO=$GITHUB_REPOSITORY
label=nightly
failed=$(jq --raw-output 'to_entries[] | select(.value.result == "failure" or .value.result == "cancelled") | "- \(.key): \(.value.result)"' <<<"$JOBS")
body=$(printf 'Jobs of the nightly run that did not pass:\n\n%s\n\n%s' "$failed" "$RUN")
gh label create "$label" --description "opened by the nightly run" --force
number=$(gh issue list --label "$label" --state open --limit 1 --json number --jq '.[].number')
if [ -n "$number" ]; then
    gh issue comment "$number" --body "$body"
else
    gh issue create --title "The nightly run fails" --label "$label" --body "$body"
fi
