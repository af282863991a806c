// Command plots draws docs/img/bursts.svg: what each algorithm admits of the
// same bursty traffic. It asks pkg/algorithm, under a clock of its own.
//
//	go run . ../../docs/img
package main

import (
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/weirhq/weir/pkg/algorithm"
)

const (
	limit    = 10
	windowUS = int64(1_000_000)
	lengthUS = 6 * windowUS
	start    = 1_796_083_200_000_000 // the beginning of a window
)

func main() {
	dir := "."
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	if err := run(dir); err != nil {
		fmt.Fprintln(os.Stderr, "plots:", err)
		os.Exit(1)
	}
}

// arrivals are the times of the requests: a burst over the end of a window,
// half as much again as the limit for two seconds, and a burst after a pause.
func arrivals() []int64 {
	var at []int64
	for i := range int64(30) {
		at = append(at, 850_000+i*10_000)
	}
	for i := range int64(30) {
		at = append(at, 2_000_000+i*66_667)
	}
	for i := range int64(25) {
		at = append(at, 5_000_000+i*4_000)
	}
	slices.Sort(at)
	return at
}

func run(dir string) error {
	kinds := []algorithm.Kind{
		algorithm.FixedWindow, algorithm.SlidingWindowLog, algorithm.SlidingWindowCounter,
		algorithm.TokenBucket, algorithm.LeakyBucket,
	}
	canvas := vgsvg.New(9*vg.Inch, 9*vg.Inch)
	tiles := draw.Tiles{Rows: len(kinds), Cols: 1, PadY: vg.Points(6), PadTop: vg.Points(4), PadRight: vg.Points(8)}
	area := draw.New(canvas)
	for row, kind := range kinds {
		p, err := panel(kind, row == len(kinds)-1)
		if err != nil {
			return err
		}
		p.Draw(tiles.At(area, 0, row))
	}
	f, err := os.Create(filepath.Join(dir, "bursts.svg"))
	if err != nil {
		return err
	}
	if _, err := canvas.WriteTo(f); err != nil {
		return err
	}
	return f.Close()
}

// panel shows one algorithm: each request as a dot, admitted above, refused
// below, and how many were admitted in the second that ends there.
func panel(kind algorithm.Kind, last bool) (*plot.Plot, error) {
	l := algorithm.Limit{Kind: kind, Requests: limit, WindowUS: windowUS}
	if kind == algorithm.LeakyBucket {
		l.Burst = 2
	}
	spec, err := algorithm.NewSpec(l)
	if err != nil {
		return nil, err
	}
	var state algorithm.State
	var admitted []int64
	var yes, no plotter.XYs
	for _, at := range arrivals() {
		d := spec.Apply(&state, start+at, algorithm.Ask{Mode: algorithm.Spend, Cost: 1})
		point := plotter.XY{X: float64(at) / 1e6}
		if d.Allowed {
			admitted = append(admitted, at)
			point.Y = -2
			yes = append(yes, point)
		} else {
			point.Y = -4
			no = append(no, point)
		}
	}
	var curve plotter.XYs
	worst := 0
	for t := int64(0); t <= lengthUS; t += 10_000 {
		n := 0
		for _, at := range admitted {
			if at > t-windowUS && at <= t {
				n++
			}
		}
		worst = max(worst, n)
		curve = append(curve, plotter.XY{X: float64(t) / 1e6, Y: float64(n)})
	}
	return drawPanel(kind, spec, curve, yes, no, worst, last)
}

func drawPanel(kind algorithm.Kind, spec *algorithm.Spec, curve, yes, no plotter.XYs, worst int, last bool) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%s: at most %d in any second", kind, worst)
	if spec.Most() != limit {
		p.Title.Text = fmt.Sprintf("%s, burst %d: at most %d in any second", kind, spec.Most(), worst)
	}
	p.Y.Label.Text = "admitted in 1 s"
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, float64(lengthUS)/1e6, -5, 22
	if last {
		p.X.Label.Text = "seconds"
	}
	line, err := plotter.NewLine(curve)
	if err != nil {
		return nil, err
	}
	line.Color, line.Width = color.RGBA{R: 0x1f, G: 0x5f, B: 0x9f, A: 255}, vg.Points(1.6)
	bound, err := plotter.NewLine(plotter.XYs{{X: 0, Y: limit}, {X: float64(lengthUS) / 1e6, Y: limit}})
	if err != nil {
		return nil, err
	}
	bound.Dashes, bound.Color = []vg.Length{vg.Points(4), vg.Points(3)}, color.Gray{Y: 0x80}
	p.Add(bound, line)
	for _, dots := range []struct {
		at    plotter.XYs
		color color.Color
	}{{yes, color.RGBA{R: 0x2a, G: 0x8f, B: 0x4f, A: 255}}, {no, color.RGBA{R: 0xc0, G: 0x39, B: 0x2b, A: 255}}} {
		if len(dots.at) == 0 {
			continue
		}
		s, err := plotter.NewScatter(dots.at)
		if err != nil {
			return nil, err
		}
		s.GlyphStyle = draw.GlyphStyle{Color: dots.color, Radius: vg.Points(1.4), Shape: draw.CircleGlyph{}}
		p.Add(s)
	}
	return p, nil
}
