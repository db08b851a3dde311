{{/* What a ServiceMonitor and a PodMonitor have in common: (dict "top" . "monitor" .Values.metrics.serviceMonitor). */}}
{{- define "milepost.endpoint" -}}
port: http
path: /metrics
interval: {{ .monitor.interval }}
{{- with .monitor.scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
{{- if include "milepost.tlsSecret" .top }}
scheme: https
tlsConfig:
  {{- include "milepost.tlsConfig" .top | nindent 2 }}
{{- end }}
{{- with .monitor.authorization }}
authorization:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $cell := list -}}
{{- with include "milepost.cellName" .top -}}{{- $cell = list (dict "targetLabel" "cell" "replacement" .) -}}{{- end }}
{{- with concat $cell .monitor.relabelings }}
relabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .monitor.metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "milepost.monitorSpec" -}}
namespaceSelector:
  matchNames: [{{ .Release.Namespace }}]
selector:
  matchLabels:
    {{- include "milepost.replicaLabels" . | nindent 4 }}
{{- end -}}

{{/* The labels of an alert beside its severity. */}}
{{- define "milepost.alertLabels" -}}
{{- $cell := include "milepost.cellName" . -}}
{{- with merge (ternary (dict "cell" $cell) dict (ne $cell "")) .Values.metrics.prometheusRule.alertLabels -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{/* The annotation that says where it stands what to do about an alert: (dict "top" . "alert" "MilepostNoLeader"). */}}
{{- define "milepost.runbook" -}}
{{- with .top.Values.metrics.prometheusRule.runbookUrl -}}
runbook_url: {{ printf "%s#%s" . (lower $.alert) | quote }}
{{- end -}}
{{- end -}}
