{{/* What the Services have in common: (dict "top" . "service" .Values.service). An address or a port is one cell's, and
     that is the first. */}}
{{- define "milepost.serviceSpec" -}}
type: {{ .service.type }}
ipFamilyPolicy: SingleStack
ipFamilies: [{{ .top.Values.ipFamily }}]
{{- $only := ternary (list) (list "clusterIP" "loadBalancerIP") (gt (int .top.Cell) 0) }}
{{- range $name := concat $only (list "loadBalancerClass" "externalTrafficPolicy") }}
{{- with get $.service $name }}
{{ $name }}: {{ . | quote }}
{{- end }}
{{- end }}
{{- with .service.loadBalancerSourceRanges }}
loadBalancerSourceRanges:
  {{- toYaml . | nindent 2 }}
{{- end }}
ports:
  - name: http
    port: {{ .top.Values.service.port }}
    targetPort: http
    appProtocol: {{ include "milepost.scheme" .top }}
    {{- if and .service.nodePort (not .top.Cell) }}
    nodePort: {{ .service.nodePort }}
    {{- end }}
{{- end -}}
