// Package report writes the HTML report of a run: one file that holds everything (data, styles, scripts) and asks nothing of
// the network, so that it can be mailed, archived and opened anywhere.
//
// The page has, for each recording, the ranking, findings with their address maps, memory over time (live, reserved, device),
// external fragmentation over time, latency distributions, and the address space over time as a picture that can be zoomed
// and pointed at. Curves come with their minima and maxima, so that a peak between two points is not lost.
//
// Charts are drawn by uPlot (assets/vendor, MIT licence, its text beside it); the address space is drawn by assets/report.js,
// as are tables and controls. Data travel as JSON in columns: a point or a rectangle as an object would make the file four
// times as large. Text from recordings (tags, names) is data, never markup: the page sets it as text content only.
package report
