{{/* What the Services have in common: (dict "top" . "service" .Values.service). */}}
{{- define "milepost.serviceSpec" -}}
type: {{ .service.type }}
ipFamilyPolicy: SingleStack
ipFamilies: [{{ .top.Values.ipFamily }}]
{{- with .service.clusterIP }}
clusterIP: {{ . | quote }}
{{- end }}
{{- range $name := list "loadBalancerClass" "externalTrafficPolicy" "loadBalancerIP" }}
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
    {{- with .service.nodePort }}
    nodePort: {{ . }}
    {{- end }}
{{- end -}}
