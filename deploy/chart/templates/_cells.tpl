{{/* Cells: deployments side by side in one release. The first one has the names, the pointers and the states that the
     release has without cells, so that it keeps its jobs when it becomes a cell. */}}

{{/* What the template "make" makes, for each cell, or once without cells: (dict "top" . "make" "milepost.cell.service").
     It is given the number of the cell, as .Cell, beside what templates of a chart are given. */}}
{{- define "milepost.forEachCell" -}}
{{- $top := .top -}}
{{- range $number := until (max 1 (int $top.Values.cells) | int) }}
---
{{ include $.make (dict "Cell" $number "Values" $top.Values "Release" $top.Release "Chart" $top.Chart) }}
{{- end }}
{{- end -}}

{{/* What a cell has behind the names and places of the release: nothing for the first, and without cells. */}}
{{- define "milepost.cellSuffix" -}}
{{- with .Cell -}}-cell-{{ . }}{{- end -}}
{{- end -}}

{{/* The name of the cell, or nothing without cells. */}}
{{- define "milepost.cellName" -}}
{{- if .Values.cells -}}cell-{{ int .Cell }}{{- end -}}
{{- end -}}

{{/* The names of all, as --cells takes them. */}}
{{- define "milepost.cellNames" -}}
{{- range $number := until (int .Values.cells) -}}
{{- if $number -}},{{- end -}}cell-{{ $number }}
{{- end -}}
{{- end -}}

{{- define "milepost.checkCells" -}}
{{- $cells := int .Values.cells -}}
{{- $name := include "milepost.releaseName" . -}}
{{- $there := lookup "v1" "ConfigMap" .Release.Namespace (printf "%s-cells" $name) -}}
{{- $known := regexFindAll "(?m)^cell-[0-9]+=" (($there.data).cells | default "") -1 | len -}}
{{- if lt $cells $known -}}
{{- fail (printf "\n\ncells=%d, and there are %d: the jobs of those that go would be gone with them. A cell without jobs costs little; keep it.\n" $cells $known) -}}
{{- end -}}
{{- if and (.Values.cellList).namespaces (not $cells) -}}
{{- fail "\n\ncellList.namespaces needs cells: without them there is no list.\n" -}}
{{- end -}}
{{- if gt $cells 1 -}}
{{- range $which := list "ingress" "httpRoute" -}}
{{- if (get $.Values $which).enabled -}}
{{- fail (printf "\n\n%s leads to one leader, and there are %d cells: make one for each cell beside the chart, each with a name of its own.\n" $which $cells) -}}
{{- end -}}
{{- end -}}
{{- $last := include "milepost.cellSuffix" (dict "Cell" (sub $cells 1)) -}}
{{- if gt (len (printf "%s%s" $name $last)) 40 -}}
{{- fail (printf "\n\n%s%s is no name for Services and Leases, which have at most 40 characters: set fullnameOverride, unless the release is there.\n" $name $last) -}}
{{- end -}}
{{- if gt (len (printf "%s%s" .Values.blobs.s3.prefix $last)) 100 -}}
{{- fail (printf "\n\nblobs.s3.prefix has at most 100 characters, with %s behind it.\n" $last) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Where clients ask, Spark's as well: at the Service of the leader, which leads to nobody who cannot write. */}}
{{- define "milepost.clientUrl" -}}
{{- $leader := ternary "-leader" "" (ne (include "milepost.labelsLeader" .) "") -}}
{{- include "milepost.scheme" . }}://{{ include "milepost.fullname" . }}{{ $leader }}.{{ .Release.Namespace }}:{{ .Values.service.port }}
{{- end -}}

{{/* The list of all cells, as clients read it. */}}
{{- define "milepost.cellList" -}}
{{- range $number := until (int .Values.cells) -}}
cell-{{ $number }}={{ include "milepost.clientUrl" (merge (dict "Cell" $number) (pick $ "Values" "Release" "Chart")) }}
{{ end -}}
{{- end -}}

{{/* The replicas of the cells in this namespace. It does not name each, so that one cell more changes no other. */}}
{{- define "milepost.otherCells" -}}
- podSelector:
    matchLabels:
      app.kubernetes.io/name: {{ include "milepost.name" . }}
      app.kubernetes.io/component: server
    matchExpressions:
      - key: milepost/cell
        operator: Exists
{{- end -}}
