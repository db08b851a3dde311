{{/* Where certificates come from, and which names they are for. */}}

{{/* The Secret with the replicas' certificate; nothing without TLS. */}}
{{- define "milepost.tlsSecret" -}}
{{- if .Values.tls.existingSecret -}}
{{- .Values.tls.existingSecret -}}
{{- else if .Values.tls.certManager.enabled -}}
{{- include "milepost.fullname" . }}-tls
{{- end -}}
{{- end -}}

{{- define "milepost.scheme" -}}
{{- ternary "https" "http" (ne (include "milepost.tlsSecret" .) "") -}}
{{- end -}}

{{/* Whether clients have to show a certificate: "true" or nothing. */}}
{{- define "milepost.demandsCertificates" -}}
{{- if or .Values.tls.clientCa.existingSecret .Values.tls.clientCa.existingConfigMap -}}true{{- end -}}
{{- end -}}

{{/* Below it each replica has a name, made of its Pod's address, that one wildcard in a certificate can stand for. */}}
{{- define "milepost.replicaDomain" -}}
{{- .Values.tls.replicaDomain | default (printf "%s-replicas.%s.svc" (include "milepost.fullname" .) .Release.Namespace) -}}
{{- end -}}

{{/* Names by which both Services are asked, with less and more of the cluster's domain behind them: a JSON list. */}}
{{- define "milepost.serviceNames" -}}
{{- $names := list -}}
{{- range $service := list (include "milepost.fullname" .) (printf "%s-leader" (include "milepost.fullname" .)) -}}
{{- range $domain := list "" (printf ".%s" $.Release.Namespace) (printf ".%s.svc" $.Release.Namespace) (printf ".%s.svc.%s" $.Release.Namespace $.Values.clusterDomain) -}}
{{- $names = append $names (printf "%s%s" $service $domain) -}}
{{- end -}}
{{- end -}}
{{- $names | toJson -}}
{{- end -}}

{{/* Without tokens the server answers to no other names, for the sake of browsers. */}}
{{- define "milepost.hosts" -}}
{{- $hosts := include "milepost.serviceNames" . | fromJsonArray -}}
{{- if .Values.ingress.enabled -}}{{- $hosts = concat $hosts .Values.ingress.hosts -}}{{- end -}}
{{- if .Values.httpRoute.enabled -}}{{- $hosts = concat $hosts .Values.httpRoute.hostnames -}}{{- end -}}
{{- join "," (concat $hosts .Values.auth.hosts | uniq) -}}
{{- end -}}

{{/* What a certificate has to be for, so that each address which is given out is one that it holds. */}}
{{- define "milepost.certificateNames" -}}
{{- $domain := include "milepost.replicaDomain" . -}}
{{- $names := append (include "milepost.serviceNames" . | fromJsonArray) (printf "*.%s" $domain) -}}
{{- if not .Values.tls.replicaDomain -}}
{{- $names = append $names (printf "*.%s.%s" $domain .Values.clusterDomain) -}}
{{- end -}}
{{- concat $names .Values.tls.certManager.dnsNames | uniq | toYaml -}}
{{- end -}}

{{/* How Prometheus checks the certificate of what it scrapes; by its own authorities where the chart names none. */}}
{{- define "milepost.tlsConfig" -}}
{{- if .Values.metrics.tlsConfig -}}
{{- .Values.metrics.tlsConfig | toYaml -}}
{{- else -}}
serverName: {{ include "milepost.fullname" . }}.{{ .Release.Namespace }}.svc
{{- if .Values.tls.caKey }}
ca:
  secret:
    name: {{ include "milepost.tlsSecret" . }}
    key: {{ .Values.tls.caKey }}
{{- end }}
{{- end -}}
{{- end -}}
