// Package options reads the options object of a strategy.
package options

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Parse reads raw into the struct that into points to, which holds the defaults. Unknown keys and trailing data are errors;
// an empty raw means no options.
func Parse(strategy string, raw json.RawMessage, into any) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("options of %s: %w", strategy, err)
	}
	if dec.More() {
		return fmt.Errorf("options of %s: more than one JSON value", strategy)
	}
	return nil
}

// Schema returns a JSON Schema of an object with the given properties, each `"name": {…}`, and no others.
func Schema(properties ...string) json.RawMessage {
	return json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","additionalProperties":false,"properties":{` +
		strings.Join(properties, ",") + `}}`)
}
