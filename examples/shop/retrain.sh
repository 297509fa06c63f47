#!/usr/bin/env bash
# Learn from the store, check the new model, announce it. When a step fails, the old model goes on serving.
set -euo pipefail
STORE=${SHOP_STORE:-shop.db}
URL=${SHOP_URL:-http://127.0.0.1:8000}
MODELS=${SHOP_MODELS:-models}
ITEMS=${SHOP_ITEMS:-products.csv}
IGCF=${SHOP_IGCF:-igcf}

new="$MODELS/$(date -u +%Y-%m-%dT%H%M%S)"
$IGCF pretrain --from-store "$STORE" --items "$ITEMS" --out "$new"
$IGCF recommend "$new" --json -k 5 > /dev/null
auth=()
if [ -n "${SHOP_ADMIN_KEY:-}" ]; then auth=(-H "Authorization: Bearer $SHOP_ADMIN_KEY"); fi
curl -sS --fail-with-body "${auth[@]}" -X POST "$URL/v1/model" -H 'content-type: application/json' \
  -d "{\"folder\": \"$(realpath "$new")\"}"
echo
# the last three are kept, to go back to
ls -1d "$MODELS"/20* | head -n -3 | xargs -r rm -rf --
