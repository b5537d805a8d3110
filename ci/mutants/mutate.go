// This file holds how a package's code is changed: every place that can be changed gets a
// switch, and all of it is written as an overlay for the go command.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/printer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Mutant is one change of the code.
type Mutant struct {
	ID int `json:"id"`
	// File and Line where it is, Function in which.
	File     string `json:"file"`
	Line     int    `json:"line"`
	Function string `json:"function"`
	// Before and After are the code there.
	Before string `json:"before"`
	After  string `json:"after"`
	// Nth tells the same change in one function apart.
	Nth int `json:"nth,omitempty"`
}

// Key names a mutant whatever lines lie before it.
func (m Mutant) Key() string {
	return strings.Join([]string{m.File, m.Function, m.Before, m.After, fmt.Sprint(m.Nth)}, "\x00")
}

func (m Mutant) String() string {
	return fmt.Sprintf("%s:%d %s: `%s` becomes `%s`", m.File, m.Line, m.Function, m.Before, m.After)
}

// Mutate gives the mutants of a package, and writes the changed files and the overlay that
// names them into a folder.
func Mutate(ctx context.Context, packagePath, work string) ([]Mutant, string, error) {
	listed, err := exec.CommandContext(ctx, "go", "list", "-json=Dir,Name,GoFiles,ImportPath", packagePath).Output()
	if err != nil {
		return nil, "", fmt.Errorf("listing %s: %w", packagePath, err)
	}
	var p struct {
		Dir, Name, ImportPath string
		GoFiles               []string
	}
	if err := json.Unmarshal(listed, &p); err != nil {
		return nil, "", err
	}
	x := &mutator{fset: token.NewFileSet(), keys: make(map[string]int)}
	var files []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(x.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, "", err
		}
		files = append(files, file)
	}
	x.types = &types.Info{Types: make(map[ast.Expr]types.TypeAndValue)}
	exports, err := exportsOf(ctx, packagePath)
	if err != nil {
		return nil, "", err
	}
	config := types.Config{Importer: importer.ForCompiler(x.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	if _, err := config.Check(p.ImportPath, x.fset, files, x.types); err != nil {
		return nil, "", fmt.Errorf("checking the types of %s: %w", packagePath, err)
	}
	replace := make(map[string]string)
	for i, file := range files {
		x.file = p.GoFiles[i]
		x.mutateFile(file)
		changed := filepath.Join(work, x.file)
		if replace[filepath.Join(p.Dir, x.file)], err = filepath.Abs(changed); err != nil {
			return nil, "", err
		}
		if err := x.write(changed, file); err != nil {
			return nil, "", err
		}
	}
	extra := filepath.Join(work, "mutants_switch.go")
	if replace[filepath.Join(p.Dir, "mutants_switch.go")], err = filepath.Abs(extra); err != nil {
		return nil, "", err
	}
	if err := os.WriteFile(extra, fmt.Appendf(nil, switches, p.Name, len(x.mutants)+1), 0o644); err != nil {
		return nil, "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, "", err
	}
	overlay := filepath.Join(work, "overlay.json")
	return x.mutants, overlay, os.WriteFile(overlay, text, 0o644)
}

// exportsOf gives the files in which the go command keeps the types of what a package
// imports.
func exportsOf(ctx context.Context, packagePath string) (map[string]string, error) {
	listed, err := exec.CommandContext(ctx, "go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}",
		packagePath).Output()
	if err != nil {
		return nil, fmt.Errorf("listing what %s imports: %w", packagePath, err)
	}
	exports := make(map[string]string)
	for line := range strings.Lines(string(listed)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		exports[path] = file
	}
	return exports, nil
}

// switches is the file that the changed package gets: which mutant is on, and which were
// come by.
const switches = `package %s

import (
	"os"
	"strconv"
	"sync/atomic"
)

var mutantOn, _ = strconv.Atoi(os.Getenv("ACKPROOF_MUTANT"))

// Variables, so that what the package's own variables come by is seen as well.
var mutantsReached = mutantsFile()

var mutantsSeen [%d]atomic.Bool

func mutantsFile() (file *os.File) {
	if path := os.Getenv("ACKPROOF_MUTANTS_REACHED"); path != "" {
		file, _ = os.Create(path)
	}
	return file
}

func mutantIs(id int) bool {
	if mutantsReached != nil && !mutantsSeen[id].Load() && !mutantsSeen[id].Swap(true) {
		_, _ = mutantsReached.WriteString(strconv.Itoa(id) + "\n")
	}
	return id == mutantOn
}

func mutantNot(id int, condition bool) bool { return mutantIs(id) != condition }
`

// mutator goes through a package.
type mutator struct {
	fset     *token.FileSet
	types    *types.Info
	file     string
	function string
	mutants  []Mutant
	keys     map[string]int // how many there are of each, the first of its kind
}

func (x *mutator) write(path string, file *ast.File) error {
	var text bytes.Buffer
	file.Comments = nil // their places are no longer right
	if err := printer.Fprint(&text, token.NewFileSet(), file); err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}

func (x *mutator) text(n ast.Node) string {
	var text bytes.Buffer
	_ = printer.Fprint(&text, x.fset, n) // into memory
	return strings.Join(strings.Fields(text.String()), " ")
}

// mutant files a change and gives its number.
func (x *mutator) mutant(at token.Pos, before, after string) int {
	m := Mutant{ID: len(x.mutants) + 1, File: x.file, Line: x.fset.Position(at).Line, Function: x.function, Before: before,
		After: after}
	key := m.Key()
	m.Nth = x.keys[key]
	x.keys[key]++
	x.mutants = append(x.mutants, m)
	return m.ID
}

func (x *mutator) mutateFile(file *ast.File) {
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			x.function = f.Name.Name
			x.block(f.Body)
		}
	}
}

// block mutates the statements of a block: each that can be left out is, once.
func (x *mutator) block(b *ast.BlockStmt) { b.List = x.list(b.List) }

func (x *mutator) list(list []ast.Stmt) []ast.Stmt {
	for i, s := range list {
		list[i] = x.statement(s)
	}
	return list
}

// statement mutates what is in a statement and gives what stands in its place.
func (x *mutator) statement(s ast.Stmt) ast.Stmt {
	text, at := x.text(s), s.Pos()
	switch s := s.(type) {
	case *ast.ExprStmt:
		x.inside(s)
		return x.removable(s, at, text)
	case *ast.IncDecStmt:
		return x.removable(s, at, text)
	case *ast.AssignStmt:
		x.inside(s)
		if s.Tok != token.DEFINE {
			return x.removable(s, at, text)
		}
	case *ast.BlockStmt:
		x.block(s)
	default: // a label belongs to its statement, too
		x.inside(s)
	}
	return s
}

// removable wraps a statement so that it can be left out.
func (x *mutator) removable(s ast.Stmt, at token.Pos, text string) ast.Stmt {
	id := x.mutant(at, text, "")
	return &ast.IfStmt{Cond: &ast.UnaryExpr{Op: token.NOT, X: call("mutantIs", number(id))},
		Body: &ast.BlockStmt{List: []ast.Stmt{s}}}
}

func call(name string, arguments ...ast.Expr) ast.Expr {
	return &ast.CallExpr{Fun: ast.NewIdent(name), Args: arguments}
}

func number(n int) ast.Expr { return &ast.BasicLit{Kind: token.INT, Value: fmt.Sprint(n)} }

// inside mutates the blocks and expressions of a statement.
func (x *mutator) inside(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.IfStmt:
		x.simple(s.Init)
		s.Cond = x.condition(s.Cond)
		x.block(s.Body)
		if s.Else != nil {
			s.Else = x.statement(s.Else)
		}
	case *ast.ForStmt:
		x.simple(s.Init)
		s.Cond = x.expression(s.Cond)
		x.block(s.Body)
	case *ast.RangeStmt:
		s.X = x.expression(s.X)
		x.block(s.Body)
	case *ast.SwitchStmt:
		x.simple(s.Init)
		s.Tag = x.expression(s.Tag)
		x.clauses(s.Body, s.Tag == nil)
	case *ast.TypeSwitchStmt:
		x.clauses(s.Body, false)
	case *ast.SelectStmt:
		for _, c := range s.Body.List {
			clause := c.(*ast.CommClause)
			clause.Body = x.list(clause.Body)
		}
	case *ast.LabeledStmt:
		x.inside(s.Stmt)
	case *ast.ReturnStmt:
		for i, r := range s.Results {
			s.Results[i] = x.condition(r)
		}
	default:
		x.simple(s)
	}
}

// clauses mutates the cases of a switch; in one without a tag they are conditions.
func (x *mutator) clauses(body *ast.BlockStmt, conditions bool) {
	for _, c := range body.List {
		clause := c.(*ast.CaseClause)
		if conditions {
			for i, e := range clause.List {
				clause.List[i] = x.condition(e)
			}
		}
		clause.Body = x.list(clause.Body)
	}
}

// simple mutates the expressions of a statement that stands by itself.
func (x *mutator) simple(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.AssignStmt:
		for i, e := range s.Rhs {
			s.Rhs[i] = x.expression(e)
		}
	case *ast.ExprStmt:
		s.X = x.expression(s.X)
	case *ast.SendStmt:
		s.Value = x.expression(s.Value)
	case *ast.DeferStmt:
		x.expression(s.Call)
	case *ast.GoStmt:
		x.expression(s.Call)
	}
}

// condition mutates an expression; one that is true or false is turned round as well.
func (x *mutator) condition(e ast.Expr) ast.Expr {
	if e == nil || !x.isBool(e) {
		return x.expression(e)
	}
	text, at := x.text(e), e.Pos()
	if b, ok := ast.Unparen(e).(*ast.BinaryExpr); ok && (b.Op == token.LAND || b.Op == token.LOR) {
		return x.expression(e) // its sides are turned round
	}
	inner := x.expression(e)
	return call("mutantNot", number(x.mutant(at, text, "!("+text+")")), inner)
}

func (x *mutator) isBool(e ast.Expr) bool {
	t, known := x.types.Types[e]
	if !known || t.Type == nil {
		return false
	}
	b, basic := t.Type.(*types.Basic)
	return basic && b.Info()&types.IsBoolean != 0
}
