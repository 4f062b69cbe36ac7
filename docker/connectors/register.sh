#!/bin/bash
# Gives each connector of this folder to Kafka Connect under its file's name. To say it again changes nothing; a changed file changes the connector.
# A connector that is refused ends the script with the reason.
set -euo pipefail
for file in "$(dirname "$0")"/*.json; do
  name=$(basename "$file" .json)
  curl --fail-with-body --silent --show-error --request PUT --header "Content-Type: application/json" --data "@$file" \
    "http://connect:8083/connectors/$name/config"
  echo
done
