package results

// Grade says whether a measurement on hardware can be trusted.
type Grade string

// The grades, from best to worst. A void trial measured something else than the strategy; a tainted one may have.
const (
	GradeClean   Grade = "clean"
	GradeTainted Grade = "tainted"
	GradeVoid    Grade = "void"
)

// Qualification is the judgement of the hardware's state during a trial, with its reasons.
type Qualification struct {
	Grade     Grade         `json:"grade"`
	Device    string        `json:"device"` // UUID
	Samples   int           `json:"samples"`
	Reasons   []GradeReason `json:"reasons,omitempty"`
	Unchecked []string      `json:"unchecked,omitempty"` // rules that could not be checked, each with why
}

// GradeReason is one rule that was broken.
type GradeReason struct {
	Rule  string `json:"rule"`
	Grade Grade  `json:"grade"`
	Text  string `json:"text"` // one line
}
