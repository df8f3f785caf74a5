// Renders a Helm chart without helm, with the engine that Helm uses: Go's text/template with the sprig functions. It
// replaces `helm template` and is built from Debian packages. It does not check values against the schema.
//
//	go run main.go CHART VALUES.yaml [RELEASE [OBJECTS.yaml]]
//
// OBJECTS.yaml contains the cluster objects that the function lookup finds, by KIND/NAME.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func readYaml(path string) map[string]interface{} {
	text, err := os.ReadFile(path)
	check(err)
	value := map[string]interface{}{}
	check(yaml.Unmarshal(text, &value))
	return value
}

// merge merges over into base, map by map, as Helm merges given values into the chart's.
func merge(base, over map[string]interface{}) map[string]interface{} {
	for key, value := range over {
		below, isMap := base[key].(map[string]interface{})
		above, isMapToo := value.(map[string]interface{})
		if isMap && isMapToo {
			base[key] = merge(below, above)
		} else {
			base[key] = value
		}
	}
	return base
}

// files implements Helm's .Files.
type files string

func (chart files) Get(name string) string {
	text, err := os.ReadFile(filepath.Join(string(chart), name))
	check(err)
	return string(text)
}

func functions(all *template.Template, cluster map[string]interface{}) template.FuncMap {
	functions := sprig.TxtFuncMap()
	delete(functions, "env")
	delete(functions, "expandenv")
	functions["toYaml"] = func(value interface{}) string {
		text, err := yaml.Marshal(value)
		check(err)
		return strings.TrimSuffix(string(text), "\n")
	}
	functions["fromYaml"] = func(text string) map[string]interface{} {
		value := map[string]interface{}{}
		check(yaml.Unmarshal([]byte(text), &value))
		return value
	}
	functions["include"] = func(name string, data interface{}) (string, error) {
		var text strings.Builder
		err := all.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
	functions["lookup"] = func(version, kind, namespace, name string) map[string]interface{} {
		found, _ := cluster[kind+"/"+name].(map[string]interface{})
		if found == nil {
			found = map[string]interface{}{}
		}
		return found
	}
	functions["required"] = func(message string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return nil, fmt.Errorf("%s", message)
		}
		return value, nil
	}
	return functions
}

func main() {
	chart := os.Args[1]
	about := readYaml(filepath.Join(chart, "Chart.yaml"))
	release := "kube-ipvs"
	if len(os.Args) > 3 {
		release = os.Args[3]
	}
	cluster := map[string]interface{}{}
	if len(os.Args) > 4 {
		cluster = readYaml(os.Args[4])
	}
	data := map[string]interface{}{
		"Values":  merge(readYaml(filepath.Join(chart, "values.yaml")), readYaml(os.Args[2])),
		"Chart":   map[string]interface{}{"Name": about["name"], "AppVersion": about["appVersion"]},
		"Files":   files(chart),
		"Release": map[string]interface{}{"Name": release, "Namespace": "kube-system", "Service": "Helm"},
	}
	all := template.New("chart").Option("missingkey=zero")
	all.Funcs(functions(all, cluster))
	templates, err := filepath.Glob(filepath.Join(chart, "templates", "*.*"))
	check(err)
	tests, err := filepath.Glob(filepath.Join(chart, "templates", "tests", "*"))
	check(err)
	templates = append(templates, tests...)
	for _, file := range templates {
		text, err := os.ReadFile(file)
		check(err)
		_, err = all.New(filepath.Base(file)).Parse(string(text))
		check(err)
	}
	for _, file := range templates {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "_") {
			continue
		}
		fmt.Printf("---\n# Source: %s\n", name)
		check(all.ExecuteTemplate(os.Stdout, name, data))
		fmt.Println()
	}
}
