package fuzz

import (
	"encoding/xml"
	"fmt"
	"io"
)

// The elements of a JUnit report, as far as CI systems read them.
type (
	junitSuite struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Failure *junitFailure `xml:"failure,omitempty"`
		Skipped *junitSkipped `xml:"skipped,omitempty"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	junitSkipped struct {
		Message string `xml:"message,attr"`
	}
)

// JUnit writes the checks as JUnit's XML: a test case a check, one more a further finding of it, and one that says whether the canary was
// found. Checks that do not apply are skipped, with the reason.
func (r *Report) JUnit(w io.Writer) error {
	s := junitSuite{Name: "gpubench fuzz " + r.Target, Time: fmt.Sprintf("%.3f", r.Seconds)}
	for _, c := range r.Checks {
		tc := junitCase{Class: r.Target, Name: c.Check + " " + c.What}
		if !c.Applied {
			tc.Skipped = &junitSkipped{c.Why}
			s.Skipped++
		}
		found := false
		for _, f := range r.Findings {
			if f.Breach.Check == c.Check {
				found = true
				s.Failures++
				s.Cases = append(s.Cases, junitCase{Class: r.Target, Name: tc.Name, Failure: &junitFailure{f.Title, f.Breach.String() + "\n" + f.diff()}})
			}
		}
		if !found {
			s.Cases = append(s.Cases, tc)
		}
	}
	if r.Canary != canaryNotRun {
		tc := junitCase{Class: r.Target, Name: "canary"}
		if r.Blind() {
			tc.Failure = &junitFailure{Message: r.Canary}
			s.Failures++
		}
		s.Cases = append(s.Cases, tc)
	}
	s.Tests = len(s.Cases)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(s); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
